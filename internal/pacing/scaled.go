package pacing

import (
	"math"
	"time"
)

// Scaled is a law whose steps are relative to the rate, so that it fits a
// service of one request per second as well as one of ten thousand. It cuts the
// rate when more is throttled than the background, the share that is throttled at
// any rate, which is usually 0. It returns to the limit along a cubic curve, and
// rests there before it searches for a higher one. It accepts a background only if
// as much is throttled at a much lower rate.
type Scaled struct {
	Tuning // may be set before the first Update

	limits Limits
	beta   float64
	meter  Meter // of responses that were not throttled

	phase   phase
	rate    float64
	updated time.Duration
	trip    float64 // smoothed time from sending to a response that is not throttled, in seconds

	// The curve begins at the last cut. since is also when the latest phase
	// began; outcomes of requests that were sent before do not count in it.
	since  time.Duration
	limit  float64  // rate that was throttled
	rise   float64  // seconds from since until the rate is the limit again, without RiseTrips
	alike  int      // how many limits in a row agree
	denied int      // cuts in a row, after each of which nothing was accepted before the next
	fresh  outcomes // of requests that were sent since then
	share  float64  // of throttled requests, smoothed over ShareMemory

	// Evidence that more is throttled than the background.
	suspicion   float64 // log of the odds
	suspects    outcomes
	suspectedAt time.Duration // when the first of them was sent

	// The fall is a series of cuts, each before the rate was back at the limit, or
	// was back only by luck.
	top      float64  // limit at the first of these cuts
	accepted float64  // the highest measured rate since then
	fallen   outcomes // at rates below what the service accepted then
	luck     float64  // how many throttled responses the last returns to the limit should have had

	background float64
	claimed    float64 // the background when it was found
	claimedAt  float64 // the limit then
	odds       float64 // log odds, since then, that there is a background
}

type phase int

const (
	unlimited phase = iota // before the first throttling
	starting               // the rate doubles
	following              // the rate follows the curve
	holding                // the rate stays far below the limit, to find a background
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
	if sent > 0 && !throttled {
		s.measureTrip(now - sent)
	}
	// Throttling responses come sooner than others: wait for both.
	if sent > s.since && (now-s.since).Seconds() >= s.trip {
		s.count(sent, throttled)
		if s.judge(now, sent, throttled) {
			return
		}
	}
	switch s.phase {
	case starting:
		s.double(elapsed)
	case following:
		s.follow(now)
	}
}

// Adopt implements [Law].
func (s *Scaled) Adopt(now time.Duration, rate float64) { s.Resume(now, rate, rate/s.beta) }

// Resume implements [Law].
func (s *Scaled) Resume(now time.Duration, rate, limit float64) {
	s.updated = now
	s.background, s.share = 0, 0 // they were of other rates
	s.cut(now, limit)
	s.meter.adopt(now, rate)
	t := s.whole() // on the curve
	if above := rate/limit - 1; above < 0 {
		t *= max(1-math.Cbrt(-above/(1-s.beta)), 0)
	} else {
		t += s.SearchTime * math.Cbrt(above/s.Step)
	}
	s.since -= time.Duration(t * float64(time.Second))
	s.rate = max(rate, s.limits.MinRate)
}

// Limit implements [Law].
func (s *Scaled) Limit() float64 {
	if s.phase != following {
		return 0
	}
	return s.limit
}

// Measure implements [Law].
func (s *Scaled) Measure(now time.Duration, throttled bool) {
	accepted := 1
	if throttled {
		accepted = 0
	}
	s.meter.Count(now, accepted)
}

// Begin implements [Law].
func (s *Scaled) Begin(now time.Duration, rate float64) {
	s.phase, s.since, s.updated = starting, now, now
	s.rate = max(rate, s.limits.MinRate)
	s.background = 0
	s.fresh, s.suspicion = outcomes{}, 0
}

// SumOf implements [Law]. All steps are relative to the rate.
func (s *Scaled) SumOf(time.Duration, float64) {}

// begin begins to limit the rate, at the rate that the service has accepted.
func (s *Scaled) begin(now time.Duration) {
	s.phase, s.since = starting, now
	s.rate = max(s.meter.Rate()*s.beta, s.meter.sinceLast(now), s.limits.MinRate)
}

// measureTrip smooths the round trip time. A request that hung for minutes counts
// as LongestTrip.
func (s *Scaled) measureTrip(trip time.Duration) {
	trip = min(trip, s.LongestTrip)
	if s.trip == 0 {
		s.trip = trip.Seconds()
	}
	s.trip += (trip.Seconds() - s.trip) / s.TripSmoothing
}

// judge acts on the outcome of a request that was sent in the current phase. It
// reports whether it has set the rate.
func (s *Scaled) judge(now, sent time.Duration, throttled bool) bool {
	switch {
	case s.phase == holding:
		s.test(now)
	case throttled && (s.suspicion >= s.enough() || s.unused()):
		s.slowDown(now, sent)
	case s.phase == following && s.background > 0 && s.risen(now-s.probeAfter()):
		s.look(now, min(s.rate, s.meter.Rate()/(1-s.share)))
	default:
		return false
	}
	return true
}

// unused reports whether the start has raised the rate far above what the callers
// send. Then the rate is not the reason for throttling, and a higher one would not
// show the limit.
func (s *Scaled) unused() bool {
	return s.phase == starting && s.sure() && s.rate >= s.SlowStart && s.rate >= (1-s.Agreement)*s.FastestGrowth*s.meter.Rate()
}

// slowDown cuts the rate because a request that was sent at sent was throttled.
func (s *Scaled) slowDown(now, sent time.Duration) {
	limit, back := s.rate, true
	switch {
	case s.phase == following:
		limit, back = s.throttledAt(sent), s.risen(sent)
	case s.unused():
		limit = 1.25 * s.meter.Rate()
	}
	if s.limit*s.beta <= s.accepted {
		s.fallen = s.fallen.and(s.fresh)
	}
	if s.luck += float64(s.fresh.responses) * s.fallen.share(); !back {
		s.luck = 0
	}
	if limit > s.top || s.luck > s.NoLuck {
		s.top, s.accepted, s.fallen, s.luck = limit, s.meter.Rate(), outcomes{}, 0
		if s.background == 0 {
			s.odds = 0
		}
	}
	// The measurement lags behind the first of the cuts.
	s.accepted = max(s.accepted, s.meter.Rate())
	if s.background > 0 {
		s.look(now, limit)
		return
	}
	share := s.fallen.share()
	far := limit*s.beta <= s.accepted/s.Fall || s.share > 2*s.UsualShare && s.fallen.responses >= s.ManyFallen
	if far && s.denied <= 1 && share > s.UsualShare && share < s.MostBackground && (s.telling(limit, share) || limit <= s.accepted/s.Sunk) {
		if s.odds > 0 {
			limit = max(limit, s.limit)
		}
		s.look(now, limit)
		return
	}
	s.cut(now, limit)
}

// throttledAt returns the limit that a throttled response shows.
func (s *Scaled) throttledAt(sent time.Duration) float64 {
	if s.fresh.throttled == s.fresh.responses {
		s.denied++
	} else {
		s.denied = 0
	}
	limit := min(s.rate, s.curve(sent))
	if s.background > 0 && sent > s.suspectedAt {
		// Few responses say little: the limit counts as ManyOutcomes of them.
		accepted, known := float64(s.suspects.responses-s.suspects.throttled), float64(s.ManyOutcomes)
		limit = min(limit, (accepted/(1-s.background)+known)/((sent-s.suspectedAt).Seconds()+known/limit))
	}
	switch {
	case s.sure():
		// No matter how many requests are throttled within one measurement, the
		// rate does not fall far below what the service accepts.
		return max(limit, min(s.meter.Rate(), s.limit))
	case s.denied >= s.Denials: // everything is throttled, for longer than a measurement
		return limit * s.DeniedBeta
	}
	return limit
}

// sure reports whether the measured rate is reliable: the last measurement counted
// enough outcomes, and agrees with the earlier ones.
func (s *Scaled) sure() bool {
	return s.meter.counted >= s.ManyOutcomes && math.Abs(s.meter.newest/s.meter.rate-1) <= s.Steady
}

// cut starts the curve again below limit.
func (s *Scaled) cut(now time.Duration, limit float64) {
	limit = max(limit, s.limits.MinRate)
	if s.phase == following && limit > s.limits.MinRate && math.Abs(limit/s.limit-1) < s.Agreement {
		s.alike++
	} else {
		s.alike = 0
	}
	s.rise = s.RiseTime
	if crowded := s.share / s.UsualShare; s.background == 0 && s.share < s.MostBackground {
		s.rise = max(s.rise, min(s.Sparse/(limit*limit), s.RiseTime*crowded*crowded*crowded, s.LongestSparse))
	}
	if s.alone() {
		s.rise = max(s.rise, min(s.Predictable/(limit*limit), s.LongestRise))
	}
	s.phase, s.since, s.limit = following, now, limit
	s.rate = max(limit*s.beta, s.limits.MinRate)
	s.fresh, s.suspicion = outcomes{}, 0
}

// alone reports whether only this client's rate decides when it is throttled,
// because it has always been throttled at the same rate.
func (s *Scaled) alone() bool { return s.alike >= s.Agreements }

// risen reports whether the curve is back at the limit at a time.
func (s *Scaled) risen(at time.Duration) bool { return (at - s.since).Seconds() >= s.whole() }

// whole returns the seconds from since until the rate is the limit again. The round
// trip is the present one: before the last cut it may have been far longer.
func (s *Scaled) whole() float64 {
	return max(s.rise, s.RiseTime+min(s.RiseTrips*s.trip, s.LongestSparse))
}

// curve returns the rate of the curve at a time since the last cut.
func (s *Scaled) curve(at time.Duration) float64 {
	t := (at - s.since).Seconds()
	if !s.risen(at) {
		left := 1 - t/s.whole()
		return s.limit * (1 - (1-s.beta)*left*left*left)
	}
	searching := s.SearchTime
	if s.background > 0 || s.alone() {
		searching = s.SearchAlone
	}
	steps, steepest := (t-s.whole())/searching, math.Cbrt(2/s.Step)
	if steps > steepest { // a cubic curve would be ever less steep in relation to the rate
		return s.limit * 3 * math.Exp(2*(steps/steepest-1))
	}
	return s.limit * (1 + s.Step*steps*steps*steps)
}

// follow sets the rate to that of the curve. The rate of a caller that sends little
// does not grow without bound.
func (s *Scaled) follow(now time.Duration) {
	rate := s.curve(now)
	if most := s.MostUnused * s.meter.Rate(); rate > most {
		rate = max(most, s.beta*s.limit)
	}
	s.rate = max(rate, s.limits.MinRate)
}

// double raises the rate during the start. Each doubling takes long enough for the
// outcomes of the last one to be known.
func (s *Scaled) double(elapsed time.Duration) {
	period := max(s.Doubling.Seconds(), 2*s.trip)
	rate := s.rate * math.Exp2(min(elapsed.Seconds()/period, 1))
	s.rate = min(rate, max(s.rate, s.SlowStart, s.FastestGrowth*s.meter.Rate()))
}
