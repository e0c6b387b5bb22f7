package simulate

import "time"

// A Level is a value that holds from an instant on.
type Level struct {
	From  time.Duration
	Value float64
}

// ServesOverTime returns how many requests per second the service can serve
// successfully. The first level is from the start of the run, the last one lasts
// to its end. The scenario must be that of a [Result].
func (s Scenario) ServesOverTime() []Level {
	var levels []Level
	for _, g := range newScript(s) {
		if g.from < time.Duration(s.Duration) {
			levels = append(levels, Level{g.from, g.serves()})
		}
	}
	return levels
}

// ClientsOverTime returns how many clients there are. The first level is from
// the start of the run, and each client that joins begins another one. The
// scenario must be that of a [Result].
func (s Scenario) ClientsOverTime() []Level {
	there := s.Clients.Count - s.joining()
	levels := []Level{{0, float64(there)}}
	for _, at := range s.begins()[there:] {
		there++
		levels = append(levels, Level{at, float64(there)})
	}
	return levels
}
