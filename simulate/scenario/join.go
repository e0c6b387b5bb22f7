package scenario

import "time"

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
// make Calls for each of them.
func (e Event) HerdCalls(client int) int {
	const rounding = 1e-9
	upTo := func(clients int) int { return int(float64(clients)*e.Calls + rounding) }
	return upTo(client+1) - upTo(client)
}

// Begins returns when each client begins to call. Those that join are the last
// ones, in the order of the events.
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

// A Level is a value that holds from an instant on.
type Level struct {
	From  time.Duration
	Value float64
}

// ClientsOverTime returns how many clients there are. The first level is from
// the start of the run, and each client that joins begins another one. The
// defaults of the scenario must be filled in.
func (s Scenario) ClientsOverTime() []Level {
	there := s.Clients.Count - s.Joining()
	levels := []Level{{0, float64(there)}}
	for _, at := range s.Begins()[there:] {
		there++
		levels = append(levels, Level{at, float64(there)})
	}
	return levels
}
