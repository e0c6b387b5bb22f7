package pacing

import (
	"math"
	"time"
)

// count counts the outcome of a request that was sent in the current phase.
func (s *Scaled) count(sent time.Duration, throttled bool) {
	s.fresh.count(throttled)
	if s.phase != starting {
		s.learn(sent, throttled)
	}
	if s.suspicion == 0 {
		if !throttled {
			return
		}
		s.suspects, s.suspectedAt = outcomes{}, sent
	}
	s.suspects.count(throttled)
	// Without a background, one throttled response is enough.
	share, more := max(s.background, s.Excess/(math.Exp(s.enough())-1)), s.Excess
	if s.phase == starting {
		share, more = s.StartShare, s.StartExcess
	}
	s.suspicion = max(s.suspicion+one(throttled).logOdds(share+more, share), 0)
}

// enough returns the suspicion at which the rate is cut. With only the background,
// chance reaches it about once every FalseAlarm seconds.
func (s *Scaled) enough() float64 {
	if s.phase == starting {
		return s.StartEnough
	}
	return math.Log(max(s.FalseAlarm*s.rate, 4))
}

// learn adjusts the background to the share that is throttled below the limit.
func (s *Scaled) learn(sent time.Duration, throttled bool) {
	was := float64(one(throttled).throttled)
	s.share += (was - s.share) / s.ShareMemory
	if s.background > 0 && (s.phase == holding || s.curve(sent) < (1-s.Agreement)*s.limit) {
		s.background = min(s.background+(was-s.background)/s.ShareMemory, s.MostLearned*s.claimed)
	}
}

// look keeps the rate far below limit for a time that is too short for other clients
// to take the rest. A background that was found at a far higher limit is given up.
func (s *Scaled) look(now time.Duration, limit float64) {
	if s.background > 0 && limit < s.claimedAt/s.Foreign {
		s.background, s.odds, s.fallen = 0, 0, outcomes{}
		s.cut(now, limit)
		return
	}
	s.phase, s.since, s.limit = holding, now, limit
	s.rate = max(limit*s.HoldAt, s.limits.MinRate)
	s.fresh, s.suspicion = outcomes{}, 0
}

// probeAfter returns how long after the return to the limit a look begins. A doubt is
// settled before the rate goes above the limit.
func (s *Scaled) probeAfter() time.Duration {
	if s.odds < s.Certain && s.telling(s.limit, s.background) {
		return 0
	}
	return s.ProbeAfter
}

// telling reports whether a look below limit can tell a background of that share
// from none: whether it has enough responses and high enough expected log odds.
func (s *Scaled) telling(limit, share float64) bool {
	responses, fewer := limit*s.HoldAt*s.LookTime, share/s.Fewer
	shown := share*math.Log(share/fewer) + (1-share)*math.Log((1-share)/(1-fewer))
	return responses >= s.LeastLook && responses*shown >= s.LeastShown
}

// test ends a look that lasted long enough, or has confirmed the background. As
// much throttling as before is evidence of a background. Much less is evidence that
// the rate causes it. One look shows little, because a crowd may be unsettled.
func (s *Scaled) test(now time.Duration) {
	share := s.claimed
	if s.background == 0 {
		share = s.fallen.share()
	}
	if more := s.Guard * share; s.fresh.logOdds(more/(more+1-share), share) >= s.GuardEnough { // the limit is below
		s.odds = 0
		s.cut(now, s.rate)
		return
	}
	shown := s.fresh.logOdds(share, share/s.Fewer)
	enough := shown <= -s.MostShown || s.background > 0 && shown >= s.MostShown
	if !enough && (now-s.since).Seconds() < s.LookTime+s.trip {
		return
	}
	s.odds = min(s.odds+min(max(shown, -s.MostShown), s.MostShown), s.Certain)
	limit := s.limit
	switch {
	case s.background == 0 && s.odds >= s.Certain:
		s.background, s.claimed = share, share
		limit = max(s.accepted/(1-share), limit)
		s.claimedAt = limit
	case s.background > 0 && s.odds < 0, s.odds <= -s.Against:
		s.background, s.odds, s.fallen = 0, 0, outcomes{}
	}
	s.cut(now, limit)
}

// outcomes counts responses.
type outcomes struct{ responses, throttled int }

func (o *outcomes) count(throttled bool) {
	o.responses++
	if throttled {
		o.throttled++
	}
}

func (o outcomes) and(p outcomes) outcomes {
	return outcomes{o.responses + p.responses, o.throttled + p.throttled}
}

// share estimates the share of throttled responses, given that the last one is
// throttled.
func (o outcomes) share() float64 {
	return float64(max(o.throttled-1, 0)) / float64(max(o.responses-1, 1))
}

// logOdds returns the log of the odds of one share of throttled responses
// against another.
func (o outcomes) logOdds(share, other float64) float64 {
	return float64(o.throttled)*math.Log(share/other) +
		float64(o.responses-o.throttled)*math.Log((1-share)/(1-other))
}

// one returns the outcome of one request.
func one(throttled bool) (o outcomes) {
	o.count(throttled)
	return o
}
