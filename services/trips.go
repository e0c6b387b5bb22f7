package services

import (
	"sync"
	"time"
)

const (
	// A sixth trip within tripMemory would follow five waits. The second to the fifth
	// take at least 2, 4, 8 and 16 minutes, together tripMemory.
	tripMemory = 30 * time.Minute
	firstWait  = time.Minute

	mostDoublings = 5
	mostAccounts  = 1024
)

// trips records when each account exceeded a limit, and doubles the wait if the
// account does so again within tripMemory. The zero value is ready to use. trips is
// safe for concurrent use.
type trips struct {
	mu       sync.Mutex
	accounts map[string]*account
}

type account struct {
	began []time.Time // when the waits within tripMemory began
	until time.Time   // the end of the current wait
}

// wait returns how long to wait after a refusal at now, at least asked. A refusal
// during a wait is not another trip: its request was sent before the wait.
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

// account returns the named account, or nil if there are too many accounts. It
// requires that t.mu is held.
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

// forget removes the trips that are older than tripMemory.
func (a *account) forget(now time.Time) {
	for len(a.began) > 0 && now.Sub(a.began[0]) > tripMemory {
		a.began = a.began[1:]
	}
}
