package announced

import "time"

// A unit is the unit of a limit's resets, which are parsed as seconds. If they are
// milliseconds, they fall by a thousand in one second.
type unit struct {
	milliseconds bool
	reset        time.Duration // as it was parsed at that time
	at           time.Duration
}

// measure compares the reset of a response that was served at served with an earlier
// one, and reports whether the unit changed.
func (u *unit) measure(served, reset time.Duration) bool {
	before := u.milliseconds
	fell, since := u.reset-reset, served-u.at
	if restart := reset < 0 || fell < 0 || since < 0 || since > time.Minute; restart || since >= time.Second {
		if !restart {
			u.milliseconds = fell > 30*since
		}
		u.reset, u.at = reset, served
	}
	return u.milliseconds != before
}

// of converts a reset that was parsed as seconds.
func (u *unit) of(reset time.Duration) time.Duration {
	if u.milliseconds && reset > 0 {
		return reset / 1000
	}
	return reset
}
