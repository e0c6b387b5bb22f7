package deliveryqueue

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// A ledger divides the workers of a process among the endpoints. To wait for a
// response is no work:
//
//   - An attempt that has taken longer than quickly is no longer one of
//     Config.Workers. It is only one of all attempts in progress, of which there are
//     at most extra more than workers.
//   - A quarter of the workers, and as many of all attempts in progress, is reserved
//     for the endpoints whose attempts are quick on average. New ones are not.
//   - An endpoint has an equal part of the rest, and one part is left over, or an
//     eleventh if more than ten endpoints were used lately. It does not have more than
//     could still begin.
//   - The next attempt is alternately for the endpoint whose deliveries have waited
//     least, so that one that has no backlog does not wait for many that do; and for
//     the one with the fewest attempts in progress that had none for longest.
//
// So an endpoint that is slow, now and then or always, delays the others by at most
// quickly, unless as many attempts hang as there may be. Each process considers only
// its own attempts.
type ledger struct {
	workers, total int // attempts that are quick so far, and all in progress, at most
	kept           int // of each, for quick endpoints
	perEndpoint    int // 0: no limit

	mu       sync.Mutex
	attempts map[int64]running // in progress, by job
	begun    int               // all attempts
	recent   map[bool]bool     // by quick: the last one was for the endpoint whose deliveries have waited least
	accounts map[string]*account
	full     bool // there was no room for a delivery that is due
}

// An account is what is known about an endpoint that was used lately.
type account struct {
	attempts int           // in progress
	turn     int           // ledger.begun when its last attempt began
	used     time.Time     // when its last attempt began or ended
	mean     time.Duration // of the last attempts
	hanging  time.Duration // what those in progress add to it; see rooms
	health   health

	succeeded time.Time // when an attempt last did, by the store's clock
	noted     bool      // the store has it
}

// A health is what the last attempts show about an endpoint.
type health struct {
	failing  time.Time // since when every attempt has failed; zero: the last one succeeded
	disabled bool      // only probes are sent, now and then

	throttled bool
}

const (
	quickly = 250 * time.Millisecond // what the response of a healthy endpoint takes
	extra   = 30                     // attempts in progress in addition to workers
	hogs    = 10                     // endpoints whose attempts may hang while others can begin
	lately  = 10 * time.Minute       // for which an account is kept
	ofLast  = 16                     // attempts of which an account has the mean

	delivering = time.Minute // after a delivery, in which a 410 does not disable a host
)

func newLedger(c Config) *ledger {
	return &ledger{
		workers: c.Workers, total: c.sockets(), kept: (c.Workers + 3) / 4, perEndpoint: c.PerEndpoint,
		attempts: make(map[int64]running), recent: make(map[bool]bool), accounts: make(map[string]*account),
	}
}

// sockets returns how many attempts may be in progress.
func (c Config) sockets() int { return min(c.Workers+extra, maxWorkers) }

func (a *account) quick() bool { return a.mean+a.hanging < quickly }

// running is the attempts of a job in progress. There may briefly be two, when the
// next one has begun and the worker of the previous one has not returned.
type running struct {
	endpoint string
	n        int
	began    time.Time // the last one
	ended    bool      // the endpoint has responded
}

// working reports whether the attempt counts as a worker.
func (r running) working(now time.Time) bool { return now.Sub(r.began) < quickly }

// A candidate is an endpoint whose deliveries are due.
type candidate struct {
	Endpoint string `json:"endpoint"`
	N        int    `json:"n"` // deliveries to take

	health health
	due    bool          // a delivery is due, and the endpoint may get attempts
	waited time.Duration // since the first one was due
	wait   time.Duration // until its throttle's next turn
	turns  int           // how many deliveries its throttle allows now at most
}

// allot sets how many deliveries to take from each candidate, and returns the
// candidates from which some are taken. If a delivery waits for a worker, it also
// returns when there will be one at the latest.
func (l *ledger) allot(candidates []candidate, now time.Time) (chosen []candidate, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = false
	all, forSlow, next := l.rooms(now)
	own := slices.Repeat([]account{{mean: quickly}}, len(candidates))
	for i := range candidates {
		candidates[i].N = 0
		if a := l.accounts[candidates[i].Endpoint]; a != nil {
			own[i] = *a
		}
	}
	most := l.perEndpoint
	if most == 0 {
		most = (l.total - l.kept) / (1 + min(hogs, max(len(candidates), len(l.accounts))))
	}
	for {
		pick, newest := -1, -1
		for i := range candidates {
			c, a := &candidates[i], &own[i]
			if c.N == c.turns {
				continue
			}
			if !all.has() || !a.quick() && !forSlow.has() || a.attempts >= max(1, min(most, all.attempts-l.kept)) {
				l.full = true
				continue
			}
			if pick < 0 || cmp.Or(cmp.Compare(a.attempts, own[pick].attempts), cmp.Compare(a.turn, own[pick].turn)) < 0 {
				pick = i
			}
			if c.N == 0 && (newest < 0 || cmp.Or(cmp.Compare(c.waited, candidates[newest].waited), cmp.Compare(a.turn, own[newest].turn)) < 0) {
				newest = i
			}
		}
		if pick < 0 {
			break
		}
		if newest >= 0 {
			quick := own[newest].quick()
			if l.recent[quick] = !l.recent[quick]; l.recent[quick] {
				pick = newest
			}
		}
		candidates[pick].N++
		own[pick].attempts++
		all.take(1, true)
		if !own[pick].quick() {
			forSlow.take(1, true)
		}
	}
	for _, c := range candidates {
		if c.N > 0 {
			chosen = append(chosen, c)
		}
	}
	if !l.full {
		next = time.Time{}
	}
	return chosen, next
}

// A room is how many attempts may begin.
type room struct{ workers, attempts int }

func (r room) has() bool { return r.workers > 0 && r.attempts > 0 }

func (r *room) take(n int, working bool) {
	r.attempts -= n
	if working {
		r.workers -= n
	}
}

// rooms returns the room for all endpoints, of it that for those that are not quick,
// and when there will be another worker.
func (l *ledger) rooms(now time.Time) (all, forSlow room, next time.Time) {
	for _, r := range l.attempts {
		l.accounts[r.endpoint].hanging = 0
	}
	for _, r := range l.attempts {
		if !r.ended && !r.working(now) {
			l.accounts[r.endpoint].hanging += now.Sub(r.began) / ofLast
		}
	}
	all = room{l.workers, l.total}
	forSlow = room{max(l.workers-l.kept, 1), l.total - l.kept}
	for _, r := range l.attempts {
		working := r.working(now)
		if end := r.began.Add(quickly); working && (next.IsZero() || end.Before(next)) {
			next = end
		}
		all.take(r.n, working)
		if !l.accounts[r.endpoint].quick() {
			forSlow.take(r.n, working)
		}
	}
	return all, forSlow, next
}

func (l *ledger) enter(job int64, endpoint string, h health, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[endpoint]
	if a == nil {
		a = &account{mean: quickly, noted: true}
		l.accounts[endpoint] = a
	}
	l.attempts[job] = running{endpoint: endpoint, n: l.attempts[job].n + 1, began: now}
	l.begun++
	a.attempts++
	a.turn, a.used, a.health = l.begun, now, h
}

// leave records that an attempt has ended, and reports whether a delivery waits for
// that.
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
	a := l.accounts[r.endpoint]
	a.attempts--
	a.used, a.hanging = now, 0
	return l.full
}

// responded records how long the endpoint took for an attempt, and if that succeeded,
// by the store's clock when.
func (l *ledger) responded(job int64, took time.Duration, succeeded bool, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.attempts[job]
	if !ok {
		return
	}
	a := l.accounts[r.endpoint]
	a.mean += (took - a.mean) / ofLast
	if succeeded {
		a.succeeded, a.noted = at, false
	}
	r.ended = true
	l.attempts[job] = r
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

// saw records whether an attempt failed. It returns the endpoint's health before and
// after it.
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
		a.health = health{throttled: before.throttled}
	case before.failing.IsZero():
		a.health.failing = now
	}
	return endpoint, before, a.health
}

// delivered reports whether an attempt at the endpoint succeeded lately.
func (l *ledger) delivered(endpoint string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[endpoint]
	return a != nil && now.Sub(a.succeeded) < delivering
}

// unnoted returns the last successes of the endpoints that the store does not have, and
// forgets endpoints that were not used lately.
func (l *ledger) unnoted(now time.Time) (all []success) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for endpoint, a := range l.accounts {
		switch {
		case !a.noted:
			all = append(all, success{endpoint, a.succeeded.UnixMicro()})
		case a.attempts == 0 && now.Sub(a.used) > lately:
			delete(l.accounts, endpoint)
		}
	}
	return all
}

// note records that the store has these successes.
func (l *ledger) note(all []success) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range all {
		if a := l.accounts[s.Endpoint]; a != nil {
			a.noted = a.succeeded.UnixMicro() == s.At
		}
	}
}
