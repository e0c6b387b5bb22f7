package simulate

import (
	"encoding/json"
	"slices"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// A Result is the outcome of a scenario, setting by setting.
type Result struct {
	// Scenario has its defaults set. In JSON it is a scenario file.
	Scenario scenario.Scenario `json:"scenario"`
	Outcomes []Outcome         `json:"outcomes"` // in the order of Scenario.Settings

	// Resolution is the time between two instants at which a caller can act. It
	// grows with the number of calls that may be under way, up to 1 ms.
	Resolution Span `json:"resolution_ms"`
}

// MarshalJSON implements json.Marshaler. It adds the warnings.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result
	return json.Marshal(struct {
		Warnings []string `json:"warnings"`
		plain
	}{r.Warnings(), plain(r)})
}

// A Span is a duration in a result. In JSON it is in milliseconds.
type Span time.Duration

// String returns the span as a scenario file has it.
func (s Span) String() string { return scenario.Duration(s).String() }

// MarshalJSON implements json.Marshaler.
func (s Span) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(s) / float64(time.Millisecond))
}

// An Outcome is what one setting did.
type Outcome struct {
	Setting string `json:"setting"` // its label

	Calls      int64 `json:"calls"`      // that began in the run
	Good       int64 `json:"good"`       // that ended with a success
	Failed     int64 `json:"failed"`     // that ended otherwise, including those that were never sent
	Unfinished int64 `json:"unfinished"` // at the end of the run and its drain

	Attempts  int64 `json:"attempts"`
	Throttled int64 `json:"throttled"`          // attempts with a 429 response
	Refused   int64 `json:"refused"`            // attempts that found the queue full
	Renewals  int64 `json:"renewals,omitempty"` // commands to the store of fleet

	Amplification  float64 `json:"amplification"`      // attempts per call
	Goodput        float64 `json:"goodput_per_second"` // successful calls per second, without those that end in the drain
	FailedShare    float64 `json:"failed_share"`       // of the calls that ended
	ThrottledShare float64 `json:"throttled_share"`    // of the attempts

	// P50 and P99 are of successful calls, including delays and waits for a send
	// token. They are 0 if there are none. If more than 1 % of the calls did not
	// end, each of those counts as at least as long as it had lasted (Kaplan and
	// Meier's estimate). The estimate is a lower bound if most calls did not end.
	P50 Span `json:"p50_ms"`
	P99 Span `json:"p99_ms"`

	// Recovery is the time from the end of the last event, or from the beginning
	// of an event that lasts to the end of the run, until goodput has recovered.
	// Goodput has recovered when its mean over five seconds is at least nine
	// tenths of the mean before the first event, or of what the service can still
	// serve if that is less, and stays there to the end of the run. Drops that
	// chance explains do not count.
	Recovery  Span     `json:"recovery_ms"`
	Recovered Recovery `json:"recovered"`

	// Fairness is Jain's index of what each client got: 1 if all got the same,
	// 1/n if one of n got everything, and 0 if none got anything. In a closed loop
	// that is a client's successful calls in the time since it joined, otherwise
	// the share of its calls that succeeded.
	Fairness float64 `json:"fairness"`

	// Backlog is the most work that the service had at one time, in requests. If
	// refusing a request takes capacity, it may be more than the queue holds.
	Backlog float64 `json:"backlog"`

	Series Series `json:"series"`
}

// mostUnfinished is the share of unfinished calls above which they change the
// figures.
const mostUnfinished = 0.01

// UnfinishedShare returns the share of the calls that did not end.
func (o *Outcome) UnfinishedShare() float64 { return share(o.Unfinished, o.Calls) }

// A Series is an Outcome over time, with one value for each second of the run.
type Series struct {
	Started   []float64 `json:"started"`   // calls that began
	Attempts  []float64 `json:"attempts"`  // that were sent: the offered load
	Good      []float64 `json:"good"`      // calls that succeeded: the goodput
	Bad       []float64 `json:"bad"`       // calls that failed
	Throttled []float64 `json:"throttled"` // 429 responses
	Errors    []float64 `json:"errors"`    // responses that are other failures
	Lost      []float64 `json:"lost"`      // attempts whose caller gave up
	Backlog   []float64 `json:"backlog"`   // work that the service has at the end of the second, in requests

	// Samples of the clients' buckets, in a long run not for every second. Each is
	// nil if the setting has no such bucket. Tokens is the mean number of tokens in
	// a client's retry bucket; for fleet it is the total of the store and all
	// clients. SendRate is the attempts per second that the rate limiter allows,
	// as the mean over the clients that are limited. Members is how many clients
	// share, for fleet.
	Tokens   []Sample `json:"tokens,omitempty"`
	SendRate []Sample `json:"send_rate_per_second,omitempty"`
	Members  []Sample `json:"members,omitempty"`
}

// A Sample is a value at an instant.
type Sample struct {
	At      Span    `json:"at_ms"`
	Value   float64 `json:"value"`
	Limited int     `json:"limited,omitempty"` // clients that are limited
}

// curves returns the values for each second.
func (s *Series) curves() []*[]float64 {
	return []*[]float64{&s.Started, &s.Attempts, &s.Good, &s.Bad, &s.Throttled, &s.Errors, &s.Lost, &s.Backlog}
}

// outcome summarizes what was recorded.
func outcome(s scenario.Scenario, setting scenario.Setting, m maker, r *recorder) Outcome {
	o := Outcome{
		Setting: setting.Label(), Calls: sum(r.series.Started), Good: sum(r.series.Good), Failed: sum(r.series.Bad),
		Attempts: sum(r.series.Attempts), Throttled: sum(r.series.Throttled), Refused: r.refused, Backlog: r.backlog,
		Series: r.series,
	}
	for _, curve := range o.Series.curves() {
		*curve = (*curve)[:time.Duration(s.Duration)/slot] // without the drain
	}
	if m.shared != nil {
		o.Renewals = int64(m.shared.Evals())
	}
	o.Unfinished = o.Calls - o.Good - o.Failed
	o.Amplification = share(o.Attempts, o.Calls)
	o.Goodput = mean(o.Series.Good) / slot.Seconds()
	o.FailedShare = share(o.Failed, o.Good+o.Failed)
	o.ThrottledShare = share(o.Throttled, o.Attempts)
	if o.UnfinishedShare() <= mostUnfinished {
		r.unfinished = nil
	}
	slices.Sort(r.latencies)
	slices.Sort(r.unfinished)
	took := func(p float64) Span {
		return Span(time.Duration(percentileOf(r.latencies, r.unfinished, p)) * time.Microsecond)
	}
	o.P50, o.P99 = took(0.5), took(0.99)
	o.Recovery, o.Recovered = recovery(s, o.Series.Good)
	o.Fairness = fairness(s, r.perClient)
	return o
}

// fairness returns [Outcome].Fairness.
func fairness(s scenario.Scenario, clients []clientCounts) float64 {
	var got []float64
	begins := s.Begins()
	for i, c := range clients {
		switch {
		case s.Clients.Callers > 0:
			there := time.Duration(s.Duration) - begins[i]
			got = append(got, float64(c.good)*(float64(s.Duration)/float64(there)))
		case c.started > 0: // any other client asked for nothing
			got = append(got, share(c.good, c.started))
		}
	}
	return Jain(got)
}
