package pacing

import (
	"math"
	"time"
)

// Scaled is a law whose steps are relative to the rate, so that it fits a
// service of one request per second as well as one of ten thousand. It cuts the
// rate once for all requests that were sent before the cut, returns to the rate
// that was throttled along a cubic curve, and rests there before it looks for a
// higher limit.
type Scaled struct {
	Tuning // may be set before the first Update

	limits Limits
	beta   float64
	meter  Meter // of responses that were not throttled

	phase   phase
	rate    float64
	updated time.Duration
	trip    float64 // smoothed time from sending to the outcome, in seconds

	// The curve begins at the last cut. since is also when the latest phase
	// began; outcomes of requests that were sent before say nothing of it.
	since  time.Duration
	limit  float64 // rate that was throttled
	rise   float64 // seconds from since until the rate is the limit again
	alike  int     // how many limits in a row agree
	denied int     // cuts in a row since which nothing was accepted before the next

	// Outcomes of requests that were sent since then.
	responses, throttled int
	share                float64 // of throttled ones, smoothed over ShareMemory

	score float64 // evidence of overload during the start, and of a background during a test

	// background is the share of responses that are throttled at any rate.
	background float64
	peak       float64       // highest limit in the last CollapseTime
	peakAt     time.Duration // when it was throttled
	before     float64       // rate before a test
	target     float64       // rate after a test that found a background
	testedAt   time.Duration
}

type phase int

const (
	unlimited phase = iota // before the first throttling
	starting               // the rate doubles
	following              // the rate follows the curve
	probing                // the rate stays at half of what it was
)

// NewScaled returns the law with beta, the fraction of the rate that is left
// after a cut, and the default tuning. meter must be new.
func NewScaled(limits Limits, meter Meter, beta float64) *Scaled {
	return &Scaled{Tuning: DefaultTuning(), limits: limits, meter: meter, beta: beta}
}

// Pace implements [Law].
func (s *Scaled) Pace() (rate, capacity float64) {
	return s.rate, max(s.limits.MinCapacity, s.BurstSeconds*s.rate)
}

// Measured implements [Law]. It measures the responses that are not throttled.
func (s *Scaled) Measured() float64 { return s.meter.Rate() }

// Update implements [Law].
func (s *Scaled) Update(now, sent time.Duration, throttled bool) {
	s.Measure(now, throttled)
	elapsed := now - s.updated
	s.updated = now
	if s.phase == unlimited {
		if throttled {
			s.begin(now)
		}
		return
	}
	fresh := sent > s.since
	if sent > 0 {
		s.measureTrip(now - sent)
	}
	if fresh {
		s.count(throttled)
		if s.judge(now, sent, throttled) {
			return
		}
	}
	switch s.phase {
	case starting:
		s.double(now, elapsed)
	case following:
		s.follow(now)
	}
}

// Adopt implements [Adopter].
func (s *Scaled) Adopt(now time.Duration, rate float64) { s.Resume(now, rate, rate/s.beta) }

// Resume implements [Adopter].
func (s *Scaled) Resume(now time.Duration, rate, limit float64) {
	s.updated = now
	s.background, s.share = 0, 0 // they were of other rates
	s.cut(now, limit)
	s.meter.adopt(now, rate)
	t := s.rise // on the curve
	if above := rate/limit - 1; above < 0 {
		t *= max(1-math.Cbrt(-above/(1-s.beta)), 0)
	} else {
		t += s.SearchTime * math.Cbrt(above/s.Step)
	}
	s.since -= time.Duration(t * float64(time.Second))
	s.rate = max(rate, s.limits.MinRate)
}

// Limit implements [Adopter].
func (s *Scaled) Limit() float64 {
	if s.phase != following {
		return 0
	}
	return s.limit
}

// Measure implements [Adopter].
func (s *Scaled) Measure(now time.Duration, throttled bool) {
	accepted := 1
	if throttled {
		accepted = 0
	}
	s.meter.Count(now, accepted)
}

// Begin implements [Adopter].
func (s *Scaled) Begin(now time.Duration, rate float64) {
	s.phase, s.since, s.updated = starting, now, now
	s.rate = max(rate, s.limits.MinRate)
	s.responses, s.throttled, s.score = 0, 0, 0
}

// begin begins to limit, at what the service has accepted.
func (s *Scaled) begin(now time.Duration) {
	s.phase, s.since = starting, now
	s.rate = max(s.meter.Rate()*s.beta, s.meter.sinceLast(now), s.limits.MinRate)
}

// measureTrip smooths the time that outcomes take. One that hung for minutes
// does not count for more than the longest trip.
func (s *Scaled) measureTrip(trip time.Duration) {
	trip = min(trip, s.LongestTrip)
	if s.trip == 0 {
		s.trip = trip.Seconds()
	}
	s.trip += (trip.Seconds() - s.trip) / s.TripSmoothing
}

// count counts the outcome of a request of the present phase.
func (s *Scaled) count(throttled bool) {
	s.responses++
	was := 0.0
	if throttled {
		s.throttled++
		was = 1
	}
	if s.phase == following {
		s.share += (was - s.share) / s.ShareMemory
	}
}

// judge decides what the outcome of a request of the present phase means. It
// reports whether it has set the rate.
func (s *Scaled) judge(now, sent time.Duration, throttled bool) bool {
	switch {
	case s.phase == probing:
		s.judgeTest(now, throttled)
		return true
	case s.background > 0:
		return s.judgeBackground(now)
	case s.phase == starting:
		return s.judgeStart(now, throttled)
	case throttled:
		s.slowDown(now, sent)
		return true
	}
	return false
}

// judgeStart ends the start when so much is throttled that the rate must be
// the reason.
func (s *Scaled) judgeStart(now time.Duration, throttled bool) bool {
	if !throttled {
		s.score = max(s.score-s.OverloadRelief, 0)
		return false
	}
	s.score++
	measured := s.meter.Rate()
	// The rate is far above what the callers send: it is not the reason, and to
	// raise it further would not show the limit.
	if s.sure() && s.rate >= s.SlowStart && s.rate >= 0.97*s.FastestGrowth*measured {
		s.rate = max(1.25*measured, s.limits.MinRate)
	} else if s.score < s.Overload {
		return false
	}
	s.peak, s.peakAt = s.rate, now
	s.cut(now, s.rate)
	return true
}

// slowDown cuts the rate because a request that was sent at sent was throttled.
func (s *Scaled) slowDown(now, sent time.Duration) {
	if s.throttled == s.responses {
		s.denied++
	} else {
		s.denied = 0
	}
	limit := min(s.rate, s.curve(sent))
	switch {
	case s.sure():
		// However often it is throttled within one measurement, the rate does
		// not fall far below what the service accepts.
		limit = max(limit, min(s.meter.Rate(), s.limit))
	case s.denied >= s.Denials: // everything is throttled, for longer than a measurement
		limit *= s.DeniedBeta
	}
	if limit > s.peak || now-s.peakAt > s.CollapseTime {
		s.peak, s.peakAt = limit, now
	}
	if limit >= s.LeastTested && limit <= s.peak/s.Collapse && s.denied <= 1 {
		s.target = s.peak
		s.test(now, limit)
		return
	}
	s.cut(now, limit)
}

// sure reports whether the measured rate is one to rely on: the last
// measurement counted enough, and those before it agree.
func (s *Scaled) sure() bool {
	return s.meter.counted >= s.ManyOutcomes && math.Abs(s.meter.newest/s.meter.rate-1) <= s.Steady
}

// test keeps the rate at half of before for a while. If as much is throttled
// as before, it is a background.
func (s *Scaled) test(now time.Duration, before float64) {
	s.phase, s.since = probing, now
	s.before, s.rate = before, max(before/2, s.limits.MinRate)
	s.responses, s.throttled, s.score = 0, 0, 0
}

// judgeTest ends a test when it has shown something. It is a sequential
// probability ratio test of a share of 7 % against one of 2.5 %.
func (s *Scaled) judgeTest(now time.Duration, throttled bool) {
	if throttled {
		s.score++
	} else {
		s.score -= s.ProbeRelief
	}
	share := float64(s.throttled) / float64(s.responses)
	switch {
	case s.throttled >= s.HeavyResponses && share > s.MostBackground: // the limit is below
		s.background = 0
		s.cut(now, s.rate*max(1-share, 0.5))
	case s.score <= -s.AgainstIt:
		s.background = 0
		s.cut(now, s.before)
	case s.score >= s.ForBackground && s.responses >= s.ProbeResponses:
		s.background = share
		s.phase, s.since, s.testedAt = starting, now, now
		s.responses, s.throttled = 0, 0
	}
}

// judgeBackground begins a test if more is throttled than the background, and
// from time to time.
func (s *Scaled) judgeBackground(now time.Duration) bool {
	tooMuch := float64(s.throttled) > s.Excess*s.background*float64(s.responses)+s.ExcessSlack
	if !tooMuch && now-s.testedAt <= s.RetestAfter {
		if s.responses >= s.ExcessWindow {
			s.responses, s.throttled = 0, 0
		}
		return false
	}
	s.target = s.rate
	if tooMuch {
		s.target *= s.beta
	}
	s.test(now, s.target)
	return true
}

// cut starts the curve again below limit.
func (s *Scaled) cut(now time.Duration, limit float64) {
	limit = max(limit, s.limits.MinRate)
	if s.phase == following && limit > s.limits.MinRate && math.Abs(limit/s.limit-1) < s.Agreement {
		s.alike++
	} else {
		s.alike = 0
	}
	crowded := s.share / s.UsualShare
	s.rise = max(s.RiseTime, min(s.Sparse/(limit*limit), s.RiseTime*crowded*crowded*crowded, s.LongestSparse))
	if s.alone() {
		s.rise = max(s.rise, min(s.Predictable/(limit*limit), s.LongestRise))
	}
	s.rise += s.RiseTrips * s.trip
	s.phase, s.since, s.limit = following, now, limit
	s.rate = max(limit*s.beta, s.limits.MinRate)
	s.responses, s.throttled = 0, 0
}

// alone reports whether the rate of this client alone decides when it is
// throttled, because that is always the same rate.
func (s *Scaled) alone() bool { return s.alike >= s.Agreements }

// curve returns the rate of the curve at a time since the last cut.
func (s *Scaled) curve(at time.Duration) float64 {
	t := (at - s.since).Seconds()
	if t < s.rise {
		left := 1 - t/s.rise
		return s.limit * (1 - (1-s.beta)*left*left*left)
	}
	searching := s.SearchTime
	if s.alone() {
		searching = s.SearchAlone
	}
	steps := (t - s.rise) / searching
	return s.limit * (1 + s.Step*steps*steps*steps)
}

// follow sets the rate to that of the curve. A caller who sends little does not
// earn an ever higher rate.
func (s *Scaled) follow(now time.Duration) {
	rate := s.curve(now)
	if most := s.MostUnused * s.meter.Rate(); rate > most {
		rate = max(most, s.beta*s.limit)
	}
	s.rate = max(rate, s.limits.MinRate)
}

// double raises the rate during the start: twice as much after each doubling,
// and not before the outcomes of the last one are known.
func (s *Scaled) double(now, elapsed time.Duration) {
	if s.background > 0 && s.rate >= s.target {
		responses, throttled := s.responses, s.throttled
		s.cut(now, s.target)
		s.responses, s.throttled = responses, throttled
		return
	}
	period := max(s.Doubling.Seconds(), 2*s.trip, s.PerDoubling/s.rate)
	rate := s.rate * math.Exp2(min(elapsed.Seconds()/period, 1))
	s.rate = min(rate, max(s.rate, s.SlowStart, s.FastestGrowth*s.meter.Rate()))
}
