package announced

import "time"

// A unit is that of a limit's resets, which are read as seconds. In one second a
// countdown of milliseconds falls by a thousand.
type unit struct {
	milliseconds bool
	reset        time.Duration // as read at that time
	at           time.Duration
}

// measure learns from a reset that was read of a response that was served at that
// time, and reports whether it counts milliseconds.
func (u *unit) measure(served, reset time.Duration) bool {
	fell, since := u.reset-reset, served-u.at
	if restart := reset < 0 || fell < 0 || since < 0 || since > time.Minute; restart || since >= time.Second {
		if !restart {
			u.milliseconds = fell > 30*since
		}
		u.reset, u.at = reset, served
	}
	return u.milliseconds
}

// of returns a reset that was read in seconds.
func (u *unit) of(reset time.Duration) time.Duration {
	if u.milliseconds && reset > 0 {
		return reset / 1000
	}
	return reset
}
