package scenario

import "time"

// Joining returns how many of the clients are not there from the start.
func (s Scenario) Joining() int {
	n := 0
	for _, e := range s.Events {
		if e.Kind == Join {
			n += e.Clients
		}
	}
	return n
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
