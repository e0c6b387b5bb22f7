package simulate

import (
	"time"
)

// A Result is what became of a scenario, setting by setting.
type Result struct {
	Scenario Scenario  `json:"scenario"` // with its defaults filled in
	Outcomes []Outcome `json:"outcomes"` // in the order of Scenario.Settings
}

// An Outcome is what became of one setting. In JSON, durations are in seconds.
type Outcome struct {
	Setting string `json:"setting"` // its label

	Calls      int64 `json:"calls"`      // that began in the run
	Good       int64 `json:"good"`       // that ended with a success
	Failed     int64 `json:"failed"`     // that ended otherwise, also those that were never sent
	Unfinished int64 `json:"unfinished"` // at the end of the run

	Attempts  int64 `json:"attempts"`
	Throttled int64 `json:"throttled"` // attempts that were answered with 429

	Amplification  float64 `json:"amplification"`   // attempts for each call
	Goodput        float64 `json:"goodput"`         // successful calls a second, over the whole run
	FailedShare    float64 `json:"failed_share"`    // of the calls that ended
	ThrottledShare float64 `json:"throttled_share"` // of the attempts

	P50 Duration `json:"p50"` // of successful calls, from their beginning on, pauses and waits for a send token included; 0: there are none
	P99 Duration `json:"p99"`

	// Recovery is the time from the end of the last event (its beginning, where it lasts to the end of the run) until
	// goodput is back: until its mean over five seconds is for the first time at least nine tenths of what it was before the
	// first event, or of what the service can still serve where that is less.
	Recovery  Duration `json:"recovery"`
	Recovered Recovery `json:"recovered"`

	// Fairness is Jain's index of what each client got: 1 where all got the same, 1/n where one of n got everything, 0 where nobody
	// got anything. In a closed loop a client gets its successful calls, else the share of its calls that succeeded.
	Fairness float64 `json:"fairness"`

	Series Series `json:"series"`
}

// A Recovery says what an Outcome's Recovery is.
type Recovery string

const (
	RecoveredInRun Recovery = "yes"
	NotRecovered   Recovery = "no"             // Recovery is the time from the end of the last event to the end of the run
	NoIncident     Recovery = "not applicable" // there is no event, or less than five seconds before the first one
)

// A Series is an Outcome over time: one value for each second of the run.
type Series struct {
	Started   []float64 `json:"started"`   // calls that began
	Attempts  []float64 `json:"attempts"`  // that were sent: the load that the service is offered
	Good      []float64 `json:"good"`      // calls that succeeded: the goodput
	Bad       []float64 `json:"bad"`       // calls that failed
	Throttled []float64 `json:"throttled"` // answers that are 429
	Errors    []float64 `json:"errors"`    // answers that are other failures
	Lost      []float64 `json:"lost"`      // attempts whose caller stopped waiting

	// What the clients' buckets held: samples, fewer than the seconds of a long run. nil where the setting has no such bucket.
	Tokens   []Sample `json:"tokens,omitempty"`    // in the retry bucket, mean over the clients
	SendRate []Sample `json:"send_rate,omitempty"` // attempts a second that the rate limiter allows, mean over the clients that are limited
}

// A Sample is a value at an instant.
type Sample struct {
	At      Duration `json:"at"`
	Value   float64  `json:"value"`
	Limited int      `json:"limited,omitempty"` // clients that are limited
}

// outcome draws up what was recorded.
func outcome(s Scenario, setting Setting, m maker, r *recorder) Outcome {
	o := Outcome{Setting: setting.Label(), Series: r.series(m)}
	for i := range r.slots {
		c := &r.slots[i]
		o.Calls += c.started.Load()
		o.Good += c.good.Load()
		o.Failed += c.bad.Load()
		o.Attempts += c.sent.Load()
		o.Throttled += c.throttle.Load()
	}
	o.Unfinished = o.Calls - o.Good - o.Failed
	o.Amplification = share(o.Attempts, o.Calls)
	o.Goodput = float64(o.Good) / time.Duration(s.Duration).Seconds()
	o.FailedShare = share(o.Failed, o.Good+o.Failed)
	o.ThrottledShare = share(o.Throttled, o.Attempts)
	o.P50, o.P99 = Duration(percentile(r.latencies, 0.5)), Duration(percentile(r.latencies, 0.99))
	o.Recovery, o.Recovered = recovery(s, o.Series.Good)
	o.Fairness = jain(s, r)
	return o
}

// share is part/whole, 0 where there is no whole.
func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

func (r *recorder) series(m maker) Series {
	var s Series
	for i := range r.slots {
		c := &r.slots[i]
		s.Started = append(s.Started, float64(c.started.Load()))
		s.Attempts = append(s.Attempts, float64(c.sent.Load()))
		s.Good = append(s.Good, float64(c.good.Load()))
		s.Bad = append(s.Bad, float64(c.bad.Load()))
		s.Throttled = append(s.Throttled, float64(c.throttle.Load()))
		s.Errors = append(s.Errors, float64(c.failed.Load()))
		s.Lost = append(s.Lost, float64(c.lost.Load()))
		if !c.sampled {
			continue
		}
		at := Duration(time.Duration(i+1) * slot)
		s.Tokens = append(s.Tokens, Sample{At: at, Value: c.tokens})
		if m.limits {
			s.SendRate = append(s.SendRate, Sample{At: at, Value: c.sendRate, Limited: c.limited})
		}
	}
	return s
}

// recovery finds [Outcome].Recovery in the successful calls of each slot.
func recovery(s Scenario, good []float64) (Duration, Recovery) {
	const (
		window = 5 // slots
		enough = 0.9
	)
	first, over := Duration(never), Duration(0)
	for _, e := range s.Events {
		first = min(first, e.From)
		if e.To < s.Duration {
			over = max(over, e.To)
		} else {
			over = max(over, e.From)
		}
	}
	before := int(min(time.Duration(first)/slot, time.Duration(len(good))))
	if len(s.Events) == 0 || before < window {
		return 0, NoIncident
	}
	reference := min(mean(good[:before]), newScript(s).serves(time.Duration(over)))
	from := int((time.Duration(over) + slot - 1) / slot)
	for i := from; i+window <= len(good); i++ {
		if mean(good[i:i+window]) >= enough*reference {
			return Duration(time.Duration(i)*slot) - over, RecoveredInRun
		}
	}
	return s.Duration - over, NotRecovered
}

// serves is how many requests a second the service can serve well at t.
func (s script) serves(t time.Duration) float64 {
	g := s[0]
	for _, next := range s[1:] {
		if next.from <= t {
			g = next
		}
	}
	can := g.capacity
	if g.throttle != nil && !g.throttle.PerClient {
		can = min(can, g.throttle.Rate)
	}
	if g.how != "" {
		return 0
	}
	return can * (1 - g.share)
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(len(values), 1))
}

// jain finds [Outcome].Fairness.
func jain(s Scenario, r *recorder) float64 {
	var n, sum, squares float64
	for i := range r.perClient {
		c := &r.perClient[i]
		started, got := c.started.Load(), float64(c.good.Load())
		if s.Clients.Callers == 0 {
			if started == 0 {
				continue // it asked for nothing
			}
			got /= float64(started)
		}
		n++
		sum += got
		squares += got * got
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (n * squares)
}
