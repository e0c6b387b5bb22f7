package deliveryqueue

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// The lanes keep workers free for the endpoints that respond. An endpoint has at
// most Config.PerEndpoint attempts at a time in a process, and one until its
// first response and after a slow attempt. Besides, each of these classes, with
// the worse ones, has a part of the workers:
const (
	hanging    = iota // several slow attempts in a row: a quarter
	slowed            // one, or an attempt in progress that is slow: half
	untried           // no attempt has ended yet: three quarters
	responding        // all
	classes
)

const (
	// slowInARow is how many slow attempts in a row make an endpoint hanging.
	slowInARow = 2

	// unknown is the number of slow attempts of an endpoint that had no attempt.
	unknown = -1
)

// A health is what the last attempts say of an endpoint.
type health struct {
	slow     int       // slow attempts in a row, or unknown
	failing  time.Time // since when every attempt has failed; zero: the last did not
	disabled bool      // only a probe is sent now and then
}

// class returns the class of an endpoint. It is late if an attempt in progress is
// slow.
func (h health) class(late bool) int {
	switch {
	case h.slow >= slowInARow:
		return hanging
	case h.slow > 0 || late:
		return slowed
	case h.slow == unknown:
		return untried
	}
	return responding
}

// after returns the health after an attempt.
func (h health) after(slow, failed bool) health {
	next := health{failing: h.failing, disabled: h.disabled}
	if slow {
		next.slow = min(max(h.slow, 0)+1, slowInARow)
	}
	switch {
	case !failed:
		next.failing, next.disabled = time.Time{}, false
	case h.failing.IsZero():
		next.failing = time.Now()
	}
	return next
}

// lanes has the attempts of this process.
type lanes struct {
	workers, perEndpoint int
	slowAfter            time.Duration // how long an attempt takes that is slow

	mu       sync.Mutex
	attempts map[int64]started // by job
	health   map[string]health // of each endpoint in attempts
	full     bool              // a delivery is due for which there was no room

	// successes are the last ones of the endpoints since flush, in the store's Unix
	// microseconds.
	successes map[string]int64

	// cursors has the endpoint of each class that had the last room of its part,
	// and reached what they are after the last allotment.
	cursors, reached [responding]string
}

// started is an attempt in progress.
type started struct {
	endpoint string
	at       time.Time
	begun    bool // the request is being sent
}

func newLanes(c Config) *lanes {
	return &lanes{
		workers: c.Workers, perEndpoint: c.PerEndpoint, slowAfter: c.AttemptTimeout / 3,
		attempts: make(map[int64]started), health: make(map[string]health),
		successes: make(map[string]int64),
	}
}

// A candidate is an endpoint whose deliveries are due.
type candidate struct {
	Endpoint string `json:"endpoint"`
	N        int    `json:"n"` // deliveries to take

	health health
	due    bool          // a delivery is due, and the endpoint is not left alone
	wait   time.Duration // until its throttle's next turn
	turns  int           // the most deliveries to take now, by its throttle
}

// allot sets how many deliveries to take of each candidate for the workers that
// are free. The candidates take turns. It returns how many workers are left.
func (l *lanes) allot(candidates []candidate) (left int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left = l.workers - len(l.attempts)
	l.full = left <= 0
	for i := range candidates {
		c := &candidates[i]
		c.N = 0
		if _, ok := l.health[c.Endpoint]; ok {
			l.health[c.Endpoint] = c.health
		}
	}
	running, late, busy := make(map[string]int), make(map[string]bool), [classes]int{}
	for _, a := range l.attempts {
		running[a.endpoint]++
		late[a.endpoint] = late[a.endpoint] || a.begun && time.Since(a.at) > l.slowAfter
	}
	for endpoint, n := range running {
		l.hold(&busy, l.health[endpoint].class(late[endpoint]), n)
	}
	lines := l.lines(candidates, late)
	l.reached = l.cursors
	for took := true; took && left > 0; {
		took, l.full = false, false
		for i := range candidates {
			c := &candidates[i]
			class, room := c.health.class(late[c.Endpoint]), l.perEndpoint
			if class != responding { // the turn is that of the first in the class's line
				room = 1
				for len(lines[class]) > 0 && running[lines[class][0].Endpoint] > 0 {
					lines[class] = lines[class][1:]
				}
				if len(lines[class]) == 0 {
					l.full = true
					continue
				}
				c = lines[class][0]
			}
			if running[c.Endpoint] >= room || !l.fits(busy, class) {
				l.full = true
				continue
			}
			if left == 0 || c.N == c.turns {
				continue
			}
			if class != responding {
				l.reached[class] = c.Endpoint
			}
			l.hold(&busy, class, 1)
			running[c.Endpoint]++
			c.N++
			left--
			took = true
		}
	}
	return left
}

// advance notes that what was allotted last is taken.
func (l *lanes) advance() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cursors = l.reached
}

// lines returns the candidates of each class that has a part of the workers, in
// the order of their endpoints, beginning after the last that had room.
func (l *lanes) lines(candidates []candidate, late map[string]bool) (lines [responding][]*candidate) {
	for i := range candidates {
		c := &candidates[i]
		if class := c.health.class(late[c.Endpoint]); class != responding {
			lines[class] = append(lines[class], c)
		}
	}
	for class, line := range lines {
		slices.SortFunc(line, func(a, b *candidate) int {
			passed := func(c *candidate) bool { return c.Endpoint <= l.cursors[class] }
			if passed(a) != passed(b) {
				if passed(a) {
					return 1
				}
				return -1
			}
			return strings.Compare(a.Endpoint, b.Endpoint)
		})
	}
	return lines
}

// hold adds n attempts of a class to those that a class and the worse ones
// have.
func (*lanes) hold(busy *[classes]int, class, n int) {
	for k := class; k < classes; k++ {
		busy[k] += n
	}
}

// fits reports whether there is a worker for one more attempt of a class.
func (l *lanes) fits(busy [classes]int, class int) bool {
	for k := class; k < classes; k++ {
		if busy[k] >= max(l.workers*(k+1)/classes, 1) {
			return false
		}
	}
	return true
}

// enter notes that an attempt begins.
func (l *lanes) enter(job int64, endpoint string, h health) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts[job] = started{endpoint: endpoint, at: time.Now()}
	l.health[endpoint] = h
}

// of returns the health of the endpoint of an attempt.
func (l *lanes) of(job int64) health {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.health[l.attempts[job].endpoint]
}

// begin notes that the request of an attempt is sent now.
func (l *lanes) begin(job int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a, ok := l.attempts[job]; ok {
		a.at, a.begun = time.Now(), true
		l.attempts[job] = a
	}
}

// leave notes that an attempt has ended, and reports whether a delivery waits for
// its room.
func (l *lanes) leave(job int64) (full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own, ok := l.attempts[job]
	if !ok {
		return false
	}
	delete(l.attempts, job)
	for _, a := range l.attempts {
		if a.endpoint == own.endpoint {
			return l.full
		}
	}
	delete(l.health, own.endpoint)
	return l.full
}

// succeeded notes a success of an attempt, at a time of the store.
func (l *lanes) succeeded(job int64, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a, ok := l.attempts[job]; ok {
		l.successes[a.endpoint] = at.UnixMicro()
	}
}

// flush returns the successes since the last call.
func (l *lanes) flush() []success {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []success
	for endpoint, at := range l.successes {
		all = append(all, success{endpoint, at})
	}
	clear(l.successes)
	return all
}

// saw notes how long an attempt took and whether it failed. It returns the
// health of the endpoint before and after it, and whether the attempt was slow.
func (l *lanes) saw(job int64, took time.Duration, failed bool) (endpoint string, before, after health, slow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	endpoint, slow = l.attempts[job].endpoint, took >= l.slowAfter
	before = l.health[endpoint]
	after = before.after(slow, failed)
	l.health[endpoint] = after
	return endpoint, before, after, slow
}
