package announced

import (
	"time"

	"example.com/awsretry/internal/limitheaders"
	"example.com/awsretry/internal/remaining"
)

// resets finds out what the resets of a limit mean.
type resets struct {
	// They are parsed as seconds. If they are milliseconds, they fall by a thousand in
	// one second.
	milliseconds bool
	last         time.Duration // as it was parsed at that time
	at           time.Duration

	asked    bool          // the last one was a Retry-After
	doubtful bool          // they do not tell when units come back
	stands   time.Duration // since when the window's end has not been postponed
	fills    [2]float64    // how many units a bucket that is full at the end gets per second: at least and at most
}

// read returns the reset of an announcement in its unit, or -1 if it is too long.
// missing is how much of the limit does not remain.
func (s *resets) read(w *remaining.Window, a Limit, h heard, missing float64) time.Duration {
	served := h.Sent + (h.At-h.Sent)/2 // an estimate
	announced := !a.Refills && !h.Asked
	if announced && s.measure(served, a.Reset) {
		w.Length = 0
	}
	if announced && s.milliseconds && a.Reset > 0 {
		a.Reset /= 1000
	}
	if a.Reset > limitheaders.LongestReset {
		a.Reset = -1
	}
	if announced && !s.asked && a.Reset > 0 {
		s.check(w, h.At, served, a.Reset, missing)
	}
	s.asked = h.Asked
	return a.Reset
}

// measure compares the reset of a response that was served at served with an earlier
// one, and reports whether the unit changed.
func (s *resets) measure(served, reset time.Duration) bool {
	before := s.milliseconds
	fell, since := s.last-reset, served-s.at
	if restart := reset < 0 || fell < 0 || since < 0 || since > time.Minute; restart || since >= time.Second {
		if !restart {
			s.milliseconds = fell > 30*since
		}
		s.last, s.at = reset, served
	}
	return s.milliseconds != before
}

// check compares a reset with the window's end. The end of a window stands still until
// it has passed, and that of a bucket is later by what was taken meanwhile. A reset that
// does neither, such as one that is the same in each response, makes the end doubtful
// until it has stood still for some time.
func (s *resets) check(w *remaining.Window, now, served, reset time.Duration, missing float64) {
	off := remaining.Rounding(reset)
	fills := [2]float64{missing / (reset + off).Seconds(), (missing + 1) / max(reset-off, time.Millisecond).Seconds()}
	if rounded := min(max(w.Length, reset)/5, off); w.Ends && now < w.End-w.Rounded() && served+reset-w.End > 5*rounded/2 {
		s.doubtful = s.doubtful || s.fills[0] > fills[1] || s.fills[1] < fills[0]
		s.stands = served
	} else if served-s.stands >= 4*off {
		s.doubtful = false
	}
	s.fills = fills
}
