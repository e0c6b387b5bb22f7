// Package fleettest has a store in memory for tests of programs that use
// package fleet.
//
//	store := &fleettest.Store{Latency: time.Millisecond}
//	shared := fleet.New(store, fleet.Config{})
//
// The store runs the same script as Valkey and Redis do, and takes the time
// from [time.Now]. It has a package of its own so that only programs that import
// it have its Lua interpreter.
package fleettest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// A Store is a fleet.Client in memory. It is safe for concurrent use. In a
// bubble of testing/synctest it follows the time of the bubble. The zero value
// is ready to use; it must not be copied after that.
type Store struct {
	// Latency is how long an Eval takes: half of it before the script runs, and
	// half of it after that. It must not be changed after the first Eval.
	Latency time.Duration

	refusal, loss atomic.Pointer[error]
	evals         atomic.Int64

	mu     sync.Mutex // guards the fields below; never locked during Latency
	hashes hashes
	engine *engine
}

// Eval implements fleet.Client.
func (s *Store) Eval(ctx context.Context, script string, keys, args []string) ([]string, error) {
	s.evals.Add(1)
	if err := sleep(ctx, s.Latency/2); err != nil {
		return nil, err
	}
	if err := s.refusal.Load(); err != nil {
		return nil, *err
	}
	reply, err := s.run(script, keys, args)
	if err := sleep(ctx, s.Latency-s.Latency/2); err != nil {
		return nil, err
	}
	if err := s.loss.Load(); err != nil {
		return nil, *err
	}
	return reply, err
}

func (s *Store) run(script string, keys, args []string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine == nil {
		s.hashes = make(hashes)
		s.engine = newEngine(s.hashes)
	}
	return s.engine.run(script, keys, args)
}

// Refuse makes every Eval fail with err before the script runs. Nil ends that.
func (s *Store) Refuse(err error) { set(&s.refusal, err) }

// LoseReplies makes every Eval fail with err after the script ran. Nil ends
// that.
func (s *Store) LoseReplies(err error) { set(&s.loss, err) }

func set(to *atomic.Pointer[error], err error) {
	if err == nil {
		to.Store(nil)
		return
	}
	to.Store(&err)
}

// HGet returns a field of the hash that is the value of a key. ok is false if
// there is none.
func (s *Store) HGet(key, field string) (value string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := s.hashes.field(key, field).(lua.LString)
	return string(text), ok
}

// Flush removes all keys, as a restart of a store without persistence does.
func (s *Store) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.hashes)
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
