package scenario

import (
	"math"
	"time"
)

// WithClients returns s with another number of clients. All clients together make
// as many calls as before: in a closed loop the callers' think time changes, and
// each client makes more or fewer of a herd's calls. The think time cannot be
// negative or longer than an hour; beyond that, [Scenario.CallRate] differs. s must
// be valid.
func (s Scenario) WithClients(count int) Scenario {
	factor := float64(count) / float64(s.Clients.Count)
	s.Clients.Count = count
	if s.Clients.Callers > 0 {
		response := s.idleResponse()
		think := (float64(s.Clients.Think)+response)*factor - response
		s.Clients.Think = Duration(math.Round(min(max(think, 0), float64(maxTime))))
	}
	s.Events = append([]Event(nil), s.Events...)
	for i := range s.Events {
		e := &s.Events[i]
		e.Calls /= factor
		if e.Clients > 0 {
			e.Clients = max(int(math.Round(float64(e.Clients)*factor)), 1)
		}
	}
	return s
}

// CallRate returns how many calls per second the clients make if no request waits
// in the queue. s must be valid.
func (s Scenario) CallRate() float64 {
	c := s.Clients
	if c.Callers == 0 {
		return c.Rate
	}
	between := float64(c.Think) + s.idleResponse()
	return float64(c.Count) * float64(c.Callers) / between * float64(time.Second)
}

// idleResponse returns the mean time that a request and the body of its response
// take if no request waits, in nanoseconds.
func (s Scenario) idleResponse() float64 {
	s = s.WithDefaults()
	body := 0.0
	if s.Service.Body != nil {
		body = float64(s.Service.Body.Time)
	}
	return float64(time.Second)/s.Service.Capacity + s.Service.Latency.Mean() + float64(s.Service.Network) + body
}

// Mean returns the mean in nanoseconds. l must have its defaults.
func (l Latency) Mean() float64 {
	median := float64(l.Median)
	switch l.Distribution {
	case Tabulated:
		sum := 0.0
		for i, q := range l.Table[1:] {
			sum += (q.Share - l.Table[i].Share) * float64(q.Within+l.Table[i].Within) / 2
		}
		return sum
	case Exponential:
		return median / math.Ln2
	case Lognormal:
		deviation := l.Deviation()
		return median * math.Exp(deviation*deviation/2)
	}
	return median
}

// Deviation returns the standard deviation of the logarithm of a lognormal
// latency. l must have its defaults.
func (l Latency) Deviation() float64 {
	const ninetyNinth = 2.3263478740408408 // of the standard normal distribution
	return math.Log(float64(l.P99)/float64(l.Median)) / ninetyNinth
}

// Joining returns how many of the clients join after the start.
func (s Scenario) Joining() int {
	n := 0
	for _, e := range s.Events {
		if e.Kind == Join {
			n += e.Clients
		}
	}
	return n
}

// HerdCalls returns how many calls of a herd a client makes. Together the clients
// make Calls times their number.
func (e Event) HerdCalls(client int) int {
	const rounding = 1e-9
	upTo := func(clients int) int { return int(float64(clients)*e.Calls + rounding) }
	return upTo(client+1) - upTo(client)
}

// Begins returns when each client begins to call. The clients that join come last,
// in the order of the events.
func (s Scenario) Begins() []time.Duration {
	begins := make([]time.Duration, s.Clients.Count-s.Joining(), s.Clients.Count)
	for _, e := range s.Events {
		if e.Kind != Join {
			continue
		}
		every := float64(e.until(s)-e.From) / float64(e.Clients)
		for i := range e.Clients {
			begins = append(begins, time.Duration(e.From)+time.Duration(float64(i)*every))
		}
	}
	return begins
}

// A Level is a value that applies from an instant on.
type Level struct {
	From  time.Duration
	Value float64
}

// ClientsOverTime returns how many clients there are. The first level is from the
// start of the run, and each client that joins begins another one. The scenario
// must have its defaults.
func (s Scenario) ClientsOverTime() []Level {
	there := s.Clients.Count - s.Joining()
	levels := []Level{{0, float64(there)}}
	for _, at := range s.Begins()[there:] {
		there++
		levels = append(levels, Level{at, float64(there)})
	}
	return levels
}
