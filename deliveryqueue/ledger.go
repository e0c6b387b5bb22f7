package deliveryqueue

import (
	"math"
	"sync"
	"time"
)

// A ledger divides the workers of a process among the endpoints. It divides the
// workers' time fairly, both current and recent:
//
//   - The next free worker goes to the waiting endpoint that took the least time.
//   - A quarter of the workers is reserved for the endpoints below the mean, among
//     those that wait or have workers: the less time an endpoint took, the more of
//     the reserved workers it may have. An endpoint at the mean or above gets none.
//   - A new endpoint counts as half the mean until its first attempt ends.
//   - An endpoint has at most Config.PerEndpoint workers at a time.
//
// So it makes no difference to the others how many endpoints are slow, how slow,
// and why. Each process considers only its own workers.
type ledger struct {
	workers, kept int
	perEndpoint   int           // 0: see most
	lately        time.Duration // the time in which taken time decays by a factor of e

	mu       sync.Mutex
	attempts map[int64]running // in progress, by job
	busy     int               // workers
	accounts map[string]*account
	full     bool // there was no room for a delivery that is due

	// successes are the last ones of the endpoints since flush, in the store's Unix
	// microseconds.
	successes map[string]int64
}

// An account is an endpoint's current and recent use of the workers.
type account struct {
	attempts int     // in progress
	seconds  float64 // of the workers' time that it took up to at, decayed
	at       time.Time
	known    bool // an attempt has ended
	health   health
}

// A health is what the last attempts show about an endpoint.
type health struct {
	failing  time.Time // since when every attempt has failed; zero: the last one succeeded
	disabled bool      // only probes are sent, now and then
}

const (
	shortestLately = 10 * time.Minute

	// The time that counts is much longer than an attempt, so that an endpoint
	// whose attempts hang does not seem to take little while it waits for the next
	// one.
	latelyTimeouts = 40
)

func newLedger(c Config) *ledger {
	return &ledger{
		workers: c.Workers, kept: min((c.Workers+3)/4, c.Workers-1), perEndpoint: c.PerEndpoint,
		lately:    max(shortestLately, latelyTimeouts*c.AttemptTimeout),
		attempts:  make(map[int64]running),
		accounts:  make(map[string]*account),
		successes: make(map[string]int64),
	}
}

// taken returns the workers' time in seconds that the endpoint took up to now.
func (a *account) taken(now time.Time, lately time.Duration) float64 {
	rest := math.Exp(-float64(max(now.Sub(a.at), 0)) / float64(lately))
	return a.seconds*rest + float64(a.attempts)*lately.Seconds()*(1-rest) // time taken meanwhile decays, too
}

// set sets how many attempts are in progress from now on.
func (a *account) set(attempts int, now time.Time, lately time.Duration) {
	a.seconds = a.taken(now, lately)
	a.attempts, a.at = attempts, now
}

// running is the attempts of a job in progress. There may briefly be two, when the
// next one has begun and the worker of the previous one has not returned.
type running struct {
	endpoint string
	n        int
}

// A candidate is an endpoint whose deliveries are due.
type candidate struct {
	Endpoint string `json:"endpoint"`
	N        int    `json:"n"` // deliveries to take

	health health
	due    bool          // a delivery is due, and the endpoint may get attempts
	wait   time.Duration // until its throttle's next turn
	turns  int           // how many deliveries its throttle allows now at most
}

// allot sets how many deliveries to take from each candidate for the free workers,
// and returns the candidates from which some are taken.
func (l *ledger) allot(candidates []candidate, now time.Time) (chosen []candidate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = false
	if len(candidates) == 0 {
		return nil
	}
	present := make(map[string]*account, len(candidates))
	for _, r := range l.attempts {
		present[r.endpoint] = l.accounts[r.endpoint]
	}
	own := make([]account, len(candidates))
	for i := range candidates {
		c := &candidates[i]
		c.N = 0
		a := l.accounts[c.Endpoint]
		if a == nil {
			a = &account{at: now}
		}
		a.health = c.health
		present[c.Endpoint] = a
		own[i] = *a
		own[i].set(a.attempts, now, l.lately)
	}
	var taken float64
	for _, a := range present {
		taken += a.taken(now, l.lately)
	}
	n := float64(len(present))
	busy, most := l.busy, l.most(len(present))
	for {
		next, least := -1, 0.0
		for i, c := range candidates {
			if c.N == c.turns {
				continue
			}
			took := own[i].share(taken/n, float64(busy)/n)
			if own[i].attempts >= most || busy+l.keep(took) >= l.workers {
				l.full = true
				continue
			}
			if next < 0 || took < least {
				next, least = i, took
			}
		}
		if next < 0 {
			break
		}
		candidates[next].N++
		own[next].attempts++
		busy++
	}
	for _, c := range candidates {
		if c.N > 0 {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// share returns how much of the workers the endpoint took, relative to the mean:
// now or recently, whichever is more.
func (a account) share(meanSeconds, meanAttempts float64) float64 {
	share := 0.5
	if a.known {
		share = 0
		if meanSeconds > 0 {
			share = a.seconds / meanSeconds
		}
	}
	if a.attempts > 0 {
		share = max(share, float64(a.attempts)/meanAttempts)
	}
	return share
}

// keep returns how many workers an endpoint with this share cannot have.
func (l *ledger) keep(share float64) int {
	return int(math.Round(float64(l.kept) * min(share, 1)))
}

// most returns how many workers one of n endpoints may have. By default, it is a
// tenth, or more if fewer than ten endpoints share them.
func (l *ledger) most(n int) int {
	if l.perEndpoint > 0 {
		return l.perEndpoint
	}
	return max(l.workers/10, (l.workers-l.kept)/max(n, len(l.accounts)), 1)
}

// enter records that an attempt begins.
func (l *ledger) enter(job int64, endpoint string, h health, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[endpoint]
	if a == nil {
		a = new(account)
		l.accounts[endpoint] = a
	}
	l.attempts[job] = running{endpoint, l.attempts[job].n + 1}
	l.busy++
	a.set(a.attempts+1, now, l.lately)
	a.health = h
}

// leave records that an attempt has ended, and reports whether a delivery waits for
// a free worker.
func (l *ledger) leave(job int64, now time.Time) (full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.attempts[job]
	if !ok {
		return false
	}
	if r.n--; r.n > 0 {
		l.attempts[job] = r
	} else {
		delete(l.attempts, job)
	}
	l.busy--
	a := l.accounts[r.endpoint]
	a.set(a.attempts-1, now, l.lately)
	a.known = true
	return l.full
}

// of returns the health of the endpoint of an attempt.
func (l *ledger) of(job int64) (h health) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[l.attempts[job].endpoint]; a != nil {
		h = a.health
	}
	return h
}

// saw records whether an attempt failed. It returns the endpoint's health before
// and after it.
func (l *ledger) saw(job int64, failed bool, now time.Time) (endpoint string, before, after health) {
	l.mu.Lock()
	defer l.mu.Unlock()
	endpoint = l.attempts[job].endpoint
	a := l.accounts[endpoint]
	if a == nil {
		return endpoint, before, after
	}
	before = a.health
	switch {
	case !failed:
		a.health = health{}
	case before.failing.IsZero():
		a.health.failing = now
	}
	return endpoint, before, a.health
}

// succeeded records the success of an attempt, at a time of the store.
func (l *ledger) succeeded(job int64, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, ok := l.attempts[job]; ok {
		l.successes[r.endpoint] = at.UnixMicro()
	}
}

// flush returns the successes since the last call, and forgets endpoints that were
// not used recently and took little time.
func (l *ledger) flush(now time.Time) (all []success) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for endpoint, a := range l.accounts {
		if a.attempts == 0 && now.Sub(a.at) > shortestLately && a.taken(now, l.lately) < l.lately.Seconds()/100 {
			delete(l.accounts, endpoint)
		}
	}
	for endpoint, at := range l.successes {
		all = append(all, success{endpoint, at})
	}
	clear(l.successes)
	return all
}
