package announced

import "example.com/awsretry/internal/remaining"

// A Line is requests that wait for the same limits.
type Line struct {
	Limits Set // that the requests need
	Held   Set // the limits that held the first one back; 0 until it was refused

	requests int
	known    map[string]remaining.Use // of those with a known cost, by the name of the limit
}

// Add adds a request.
func (q *Line) Add(r Request) { q.add(1, r) }

// Remove removes a request that was added.
func (q *Line) Remove(r Request) { q.add(-1, r) }

func (q *Line) add(n int, r Request) {
	q.requests += n
	for name := range r.Costs {
		if cost := r.cost(name); cost > 0 {
			if q.known == nil {
				q.known = make(map[string]remaining.Use)
			}
			known := q.known[name]
			known.Add(n, cost)
			known.Add(-n, 0) // they are in requests
			q.known[name] = known
		}
	}
}

// costOf returns what the requests cost of a limit.
func (q *Line) costOf(m *limit) float64 {
	all := q.known[m.name]
	all.Add(q.requests, 0)
	return all.Units(m.Cost(0))
}
