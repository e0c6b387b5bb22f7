// Package fleettest provides an in-memory store for tests of programs that use
// package fleet.
//
//	store := &fleettest.Store{Latency: time.Millisecond}
//	shared, err := fleet.New(store, fleet.Config{Prefix: "orders"})
//
// The store renews leases as the script does in Valkey and Redis, but in Go. It
// takes the time from [time.Now].
package fleettest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"example.com/awsretry/fleet/internal/protocol"
)

// A Store is a fleet.Client in memory. It is safe for concurrent use. In a
// bubble of testing/synctest it follows the time of the bubble. The zero value
// is ready to use; it must not be copied after first use.
type Store struct {
	// Latency is how long Eval takes: half of it before the renewal, half after.
	// It must not be changed after the first Eval.
	Latency time.Duration

	refusal, loss atomic.Pointer[error]
	evals         atomic.Int64

	mu         sync.Mutex // guards partitions; never locked during Latency
	partitions map[string]partition
}

// Eval implements fleet.Client. It ignores the script, and does in Go what the
// script of package fleet does.
func (s *Store) Eval(ctx context.Context, _ string, keys, args []string) ([]string, error) {
	s.evals.Add(1)
	if err := sleep(ctx, s.Latency/2); err != nil {
		return nil, err
	}
	if err := s.refusal.Load(); err != nil {
		return nil, *err
	}
	reply, err := s.renew(keys[0], args[0])
	if err := sleep(ctx, s.Latency-s.Latency/2); err != nil {
		return nil, err
	}
	if err := s.loss.Load(); err != nil {
		return nil, *err
	}
	return reply, err
}

func (s *Store) renew(key, arg string) ([]string, error) {
	var request protocol.Request
	if err := json.Unmarshal([]byte(arg), &request); err != nil {
		return nil, fmt.Errorf("fleettest: the Store runs renewals only: %w", err)
	}
	s.mu.Lock()
	now := time.Now()
	p, _ := s.get(key, now)
	reply := p.renew(&request, now)
	if reply.Differs == "" {
		if s.partitions == nil {
			s.partitions = make(map[string]partition)
		}
		s.partitions[key] = p
	}
	s.mu.Unlock()
	text, err := json.Marshal(reply)
	return []string{string(text)}, err
}

// get returns the partition of a key, or a zero partition if there is none. It
// requires that s.mu be held.
func (s *Store) get(key string, now time.Time) (p partition, ok bool) {
	if p, ok = s.partitions[key]; !ok || !now.Before(p.expires) {
		return partition{}, false
	}
	return p, true
}

// Refuse makes every Eval fail with err before the renewal, until Refuse(nil).
func (s *Store) Refuse(err error) { set(&s.refusal, err) }

// LoseReplies makes every Eval fail with err after the renewal, until
// LoseReplies(nil).
func (s *Store) LoseReplies(err error) { set(&s.loss, err) }

func set(to *atomic.Pointer[error], err error) {
	if err == nil {
		to.Store(nil)
		return
	}
	to.Store(&err)
}

// Tokens returns the number of retry tokens under a key. ok is false if there is
// no such key.
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

// Copy copies all keys. Calling restore replaces the store's keys with the copy, as
// a restart from a backup does.
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

// Evals returns the number of calls of Eval so far.
func (s *Store) Evals() int { return int(s.evals.Load()) }

// sleep sleeps for d, or until ctx is done, and then returns its error.
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
