package announced

// A Line is requests that wait for the same limits.
type Line struct {
	Limits Set // that the requests need
	Held   Set // the limits that held the first one back; 0 until it was refused

	requests int
	known    map[string]inFlight // the known costs, by the name of the limit
}

// Add adds a request.
func (q *Line) Add(r Request) {
	q.requests++
	q.count(r, (*inFlight).add)
}

// Remove removes a request that was added.
func (q *Line) Remove(r Request) {
	q.requests--
	q.count(r, (*inFlight).remove)
}

func (q *Line) count(r Request, change func(*inFlight, float64)) {
	for name := range r.Costs {
		cost := r.cost(name)
		if cost == 0 {
			continue
		}
		if q.known == nil {
			q.known = make(map[string]inFlight)
		}
		known := q.known[name]
		change(&known, cost)
		q.known[name] = known
	}
}

// costOf returns what the requests cost of a limit.
func (q *Line) costOf(m *limit) float64 {
	known := q.known[m.name]
	known.learned = q.requests - known.priced
	return known.units(m.cost.mean)
}
