// Package fleettest has a store in memory for tests of programs that use
// package fleet.
//
//	store := &fleettest.Store{Latency: time.Millisecond}
//	shared, err := fleet.New(store, fleet.Config{})
//
// The store renews leases as Valkey and Redis do, but in Go: it runs no scripts.
// It takes the time from [time.Now].
package fleettest

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// A Store is a fleet.Client in memory. It is safe for concurrent use. In a
// bubble of testing/synctest it follows the time of the bubble. The zero value
// is ready to use; it must not be copied after first use.
type Store struct {
	// Latency is how long an Eval takes: half of it before the renewal, and half
	// of it after that. It must not be changed after the first Eval.
	Latency time.Duration

	refusal, loss atomic.Pointer[error]
	evals         atomic.Int64

	mu         sync.Mutex // guards partitions; never locked during Latency
	partitions map[string]partition
}

// Eval implements fleet.Client. It does what the script of package fleet does,
// and does not read the one that it is given.
func (s *Store) Eval(ctx context.Context, _ string, keys, args []string) ([]string, error) {
	s.evals.Add(1)
	if err := sleep(ctx, s.Latency/2); err != nil {
		return nil, err
	}
	if err := s.refusal.Load(); err != nil {
		return nil, *err
	}
	reply, err := s.renew(keys[0], args)
	if err := sleep(ctx, s.Latency-s.Latency/2); err != nil {
		return nil, err
	}
	if err := s.loss.Load(); err != nil {
		return nil, *err
	}
	return reply, err
}

func (s *Store) renew(key string, args []string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	p, _ := s.get(key, now)
	reply, err := p.renew(args, now)
	if err != nil {
		return nil, err
	}
	if s.partitions == nil {
		s.partitions = make(map[string]partition)
	}
	s.partitions[key] = p
	return reply, nil
}

// get requires that s.mu is held. The partition of an unused key is a zero one.
func (s *Store) get(key string, now time.Time) (p partition, ok bool) {
	if p, ok = s.partitions[key]; !ok || !now.Before(p.expires) {
		return partition{}, false
	}
	return p, true
}

// Refuse makes every Eval fail with err before the renewal. Nil ends that.
func (s *Store) Refuse(err error) { set(&s.refusal, err) }

// LoseReplies makes every Eval fail with err after the renewal. Nil ends that.
func (s *Store) LoseReplies(err error) { set(&s.loss, err) }

func set(to *atomic.Pointer[error], err error) {
	if err == nil {
		to.Store(nil)
		return
	}
	to.Store(&err)
}

// Tokens returns how many retry tokens the store has for a key. ok is false if
// the key is not used.
func (s *Store) Tokens(key string) (n float64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.get(key, time.Now())
	return p.tokens, ok
}

// Flush removes all keys, as a restart of a store without persistence does.
func (s *Store) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.partitions)
}

// Copy copies all keys. The function that it returns puts the copy in place of
// what the store has by then, as a restart from a backup does.
func (s *Store) Copy() (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	older := maps.Clone(s.partitions)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.partitions = maps.Clone(older)
	}
}

// Evals returns how many calls of Eval there were.
func (s *Store) Evals() int { return int(s.evals.Load()) }

// sleep returns the error of ctx if that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
