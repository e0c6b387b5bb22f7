package tokens

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Pool is a bucket of whole tokens, most of which are lent: they are put back
// when the loan ends with a success. The pool may also be refilled over time.
// Otherwise, only callers that wait need a lock and a clock.
//
// The zero Pool has no tokens. A Pool is safe for concurrent use.
type Pool struct {
	capacity int
	size     func() int   // the present capacity, at most capacity; nil: capacity
	tokens   atomic.Int64 // those above size do not count; unused if refill is set
	refill   *Bucket      // nil if tokens are not refilled over time
	lent     atomic.Int64 // loans that have not ended
	waiting  atomic.Int64 // in line; written with mu held

	mu    sync.Mutex // guards the fields below
	line  []*borrower
	moved time.Time // when a caller in line got tokens
}

// A borrower waits in line for tokens.
type borrower struct {
	n       int
	since   time.Time
	granted chan struct{} // closed, with the pool's mutex held, when it has them
	look    chan struct{} // signaled when it should check the pool; has a buffer of one
}

// NewPool returns a full pool that is refilled with perSecond tokens per second,
// which may be 0. If size is not nil, it returns the present capacity.
func NewPool(capacity int, perSecond float64, size func() int) *Pool {
	p := &Pool{capacity: capacity, size: size}
	if perSecond > 0 {
		p.refill = New(time.Now(), perSecond, float64(capacity))
	}
	p.tokens.Store(int64(p.Size()))
	return p
}

// Size returns the present capacity.
func (p *Pool) Size() int {
	if p.size == nil {
		return p.capacity
	}
	return p.size()
}

// Tokens returns the number of whole tokens.
func (p *Pool) Tokens() int {
	if p.refill == nil {
		return min(int(p.tokens.Load()), p.Size())
	}
	tokens := p.refill.Tokens()
	if tokens >= float64(p.capacity) {
		return p.capacity // a capacity near the greatest int has no exact float
	}
	return int(tokens)
}

// Take takes n tokens if there are enough, and reports whether there were.
func (p *Pool) Take(n int) bool {
	if p.refill != nil {
		return n <= p.capacity && p.refill.Take(float64(n))
	}
	size := int64(p.Size())
	for {
		tokens := p.tokens.Load()
		left := min(tokens, size) - int64(n)
		if left < 0 {
			return false
		}
		if p.tokens.CompareAndSwap(tokens, left) {
			return true
		}
	}
}

// TakeUpTo takes n tokens, or as many as there are, and returns how many.
func (p *Pool) TakeUpTo(n int) int {
	for n = min(n, p.Tokens()); n > 0; n = min(n, p.Tokens()) {
		if p.Take(n) {
			return n
		}
	}
	return 0
}

// Wait takes n tokens from a pool that is refilled over time, as [Bucket.Wait]
// does.
func (p *Pool) Wait(ctx context.Context, n int) error { return p.refill.Wait(ctx, float64(n)) }

// Soonest returns how long Wait would wait for n tokens.
func (p *Pool) Soonest(n int) time.Duration {
	if p.refill == nil || n <= 0 {
		return 0
	}
	_, expected := p.refill.Line(float64(n))
	return expected
}

// Put adds n tokens, up to the capacity, and serves the line. An n of 0 or less
// changes nothing.
func (p *Pool) Put(n int) {
	if p.refill != nil {
		if n > 0 {
			p.refill.Put(float64(n))
			p.wake()
		}
		return
	}
	size := int64(p.Size())
	for {
		tokens := p.tokens.Load()
		room := size - tokens
		if room <= 0 || n <= 0 { // full, as after most successes of a healthy service
			return
		}
		if p.tokens.CompareAndSwap(tokens, tokens+min(int64(n), room)) {
			p.wake()
			return
		}
	}
}

// BeginLoan counts tokens that were taken as lent until EndLoan.
func (p *Pool) BeginLoan() { p.lent.Add(1) }

// EndLoan ends a loan of n tokens. It puts them back if back is true.
func (p *Pool) EndLoan(n int, back bool) {
	if back {
		p.Put(n)
	}
	if p.lent.Add(-1) == 0 {
		p.wake()
	}
}

// patience is how long AwaitLoan waits if no caller in line gets tokens.
const patience = time.Minute

// Await waits in line until ctx ends, and begins a loan of n tokens.
func (p *Pool) Await(ctx context.Context, n int) error {
	w := p.join(n)
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		p.leave(w)
		return context.Cause(ctx)
	}
}

// AwaitLoan is Await for tokens that are refilled over time or put back by loans.
// It returns ErrQuotaExceeded if neither is possible, or when no caller in line has
// gotten tokens for a minute.
func (p *Pool) AwaitLoan(ctx context.Context, n int) error {
	w := p.join(n)
	for {
		wait, ok := p.expect(w)
		if !ok {
			p.leave(w)
			return ErrQuotaExceeded
		}
		timer := time.NewTimer(wait)
		select {
		case <-w.granted:
			timer.Stop()
			return nil
		case <-w.look:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			p.leave(w)
			return context.Cause(ctx)
		}
		timer.Stop()
	}
}

// join takes the last place in line.
func (p *Pool) join(n int) *borrower {
	w := &borrower{n: n, since: time.Now(), granted: make(chan struct{}), look: make(chan struct{}, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line = append(p.line, w)
	p.waiting.Add(1)
	p.serve()
	return w
}

// leave gives up the place in line, or ends a loan that was granted meanwhile.
func (p *Pool) leave(w *borrower) {
	p.mu.Lock()
	i := slices.Index(p.line, w)
	if i >= 0 {
		p.line = slices.Delete(p.line, i, i+1)
		p.waiting.Add(-1)
		p.serve()
		p.nudge()
	}
	p.mu.Unlock()
	if i < 0 {
		p.EndLoan(w.n, true)
	}
}

// expect serves the line, and returns how long w should wait before it checks
// again. ok is false if w is the first in line and should give up.
func (p *Pool) expect(w *borrower) (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lent := p.lent.Load() > 0 // before the bucket, because EndLoan changes that first
	p.serve()
	if len(p.line) == 0 || p.line[0] != w {
		return math.MaxInt64, true
	}
	start := w.since
	if p.moved.After(start) {
		start = p.moved
	}
	left, refill := patience-time.Since(start), time.Duration(math.MaxInt64)
	if p.refill != nil {
		refill = max(p.Soonest(w.n), time.Millisecond)
	}
	return min(left, refill), left > 0 && (lent || refill <= left)
}

// wake serves the line, and makes the first in line check the pool.
func (p *Pool) wake() {
	if p.waiting.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serve()
	p.nudge()
}

// serve begins the loans at the front of the line whose tokens are available. serve
// requires that p.mu is held.
func (p *Pool) serve() {
	for len(p.line) > 0 && p.Take(p.line[0].n) {
		p.BeginLoan()
		close(p.line[0].granted)
		p.line, p.moved = p.line[1:], time.Now()
		p.waiting.Add(-1)
		p.nudge()
	}
}

// nudge makes the first in line check the pool. It requires that p.mu is held.
func (p *Pool) nudge() {
	if len(p.line) == 0 {
		return
	}
	select {
	case p.line[0].look <- struct{}{}:
	default:
	}
}
