package services

import (
	"sync"
	"time"
)

const (
	// A sixth trip within tripMemory would follow five waits. From the second on
	// they take at least 2, 4, 8 and 16 minutes, which is tripMemory.
	tripMemory = 30 * time.Minute
	firstWait  = time.Minute

	mostDoublings = 5
	mostAccounts  = 1024
)

// trips remembers for each account when it exceeded a limit, and doubles the wait
// if it does so again within tripMemory. The zero value is ready to use. It is safe
// for concurrent use.
type trips struct {
	mu       sync.Mutex
	accounts map[string]*account
}

type account struct {
	began []time.Time // of the waits within tripMemory
	until time.Time   // the end of the present wait
}

// wait returns the wait after a refusal at now, at least asked. A refusal during a
// wait belongs to a request that was sent before it, and is not another trip.
func (t *trips) wait(name string, asked time.Duration, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.account(name, now)
	if a == nil {
		return asked
	}
	if !now.Before(a.until) {
		a.forget(now)
		a.began = append(a.began, now)
	}
	wait := asked
	if doublings := min(len(a.began)-1, mostDoublings); doublings > 0 {
		wait = max(asked, firstWait<<doublings)
	}
	if until := now.Add(wait); until.After(a.until) {
		a.until = until
	}
	return wait
}

// account returns the named account, or nil if there are too many. It requires
// that t.mu is held.
func (t *trips) account(name string, now time.Time) *account {
	if a := t.accounts[name]; a != nil {
		return a
	}
	for other, a := range t.accounts {
		if a.forget(now); len(a.began) == 0 && !now.Before(a.until) {
			delete(t.accounts, other)
		}
	}
	if len(t.accounts) >= mostAccounts {
		return nil
	}
	if t.accounts == nil {
		t.accounts = make(map[string]*account)
	}
	a := &account{}
	t.accounts[name] = a
	return a
}

// forget removes the trips before tripMemory.
func (a *account) forget(now time.Time) {
	for len(a.began) > 0 && now.Sub(a.began[0]) > tripMemory {
		a.began = a.began[1:]
	}
}
