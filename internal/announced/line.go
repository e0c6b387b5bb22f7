package announced

// A Line is requests that wait for the same limits.
type Line struct {
	Limits Set // that the requests need
	Held   Set // the limits that held the first one back; 0 until it was refused

	requests int
	known    map[string]costs // of those with a known cost, by the name of the limit
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
				q.known = make(map[string]costs)
			}
			known := q.known[name]
			known.add(n, cost)
			q.known[name] = known
		}
	}
}

// costOf returns what the requests cost of a limit.
func (q *Line) costOf(m *limit) float64 {
	all := q.known[m.name]
	all.requests = q.requests
	return all.units(m.Cost(0))
}

// costs is the total cost of some requests.
type costs struct {
	requests int
	priced   int     // the number of requests with a known cost
	known    float64 // the sum of the known costs
}

// add adds n requests, or removes -n. known is the cost of each, or 0 if it is learned.
func (c *costs) add(n int, known float64) {
	if c.requests += n; known > 0 {
		c.priced += n
		if c.known = max(c.known+float64(n)*known, 0); c.priced == 0 {
			c.known = 0 // drops rounding errors
		}
	}
}

// units returns the total. mean is the cost of each request whose cost is learned.
func (c *costs) units(mean float64) float64 {
	return c.known + float64(c.requests-c.priced)*mean
}
