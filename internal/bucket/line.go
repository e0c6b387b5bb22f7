package bucket

import (
	"container/list"
	"context"
	"fmt"
	"time"

	"example.com/awsretry/internal/announced"
)

// A TooLongError is the error of a wait that was not begun.
type TooLongError struct {
	Expected time.Duration // how long the wait would have been at the present rate
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("bucket: the expected wait of %v is too long", e.Expected)
}

// Wait takes n tokens. If there are too few, it waits for them in line. n
// must not exceed the capacity.
//
// A wait that is not expected to end before ctx's deadline is not begun; Wait
// returns a [*TooLongError] at once. If ctx ends first, Wait returns its cause
// and takes nothing.
func (b *Bucket) Wait(ctx context.Context, n float64) error {
	_, err := b.wait(ctx, n, nil, 0, false)
	return err
}

// WaitAtMost is Wait for callers who do not begin a wait that is expected to be
// longer than limit either.
func (b *Bucket) WaitAtMost(ctx context.Context, n float64, limit time.Duration) error {
	_, err := b.wait(ctx, n, nil, limit, true)
	return err
}

// WaitFor is Wait, or WaitAtMost if limited, for a request with those costs. It
// returns the request's send time.
func (b *Bucket) WaitFor(
	ctx context.Context, n float64, costs *announced.Costs, limit time.Duration, limited bool,
) (sent time.Duration, err error) {
	return b.wait(ctx, n, costs, limit, limited)
}

func (b *Bucket) wait(
	ctx context.Context, n float64, costs *announced.Costs, limit time.Duration, limited bool,
) (sent time.Duration, err error) {
	if sent, ok := b.TakeNow(n, costs); ok {
		return sent, nil
	}

	// Determine the limit. The context's methods may panic; they are called
	// before the caller joins the line, so that a panic leaves nobody in it.
	done := ctx.Done()
	if deadline, ok := ctx.Deadline(); ok {
		before := max(time.Until(deadline), 0) - 1
		if !limited || before < limit {
			limit, limited = before, true
		}
	}

	// Join the line.
	w, expected, ok := b.takeOrJoin(n, costs, limit, limited)
	if !ok {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return 0, &TooLongError{expected}
	}

	// Wait for the grant.
	select {
	case <-w.granted:
		if ctx.Err() == nil {
			return w.sent, nil
		}
	case <-done:
	}
	b.leave(w)
	return 0, context.Cause(ctx)
}

// A waiter is a place in line.
type waiter struct {
	n       float64
	costs   *announced.Costs
	sent    time.Duration // send time; written before granted is closed
	place   *list.Element // guarded by the bucket's mutex
	granted chan struct{} // closed when the waiter has its tokens, with the bucket's mutex held
}

// takeOrJoin takes n tokens or takes the last place in line. If the expected
// wait exceeds the limit, it does neither, and returns that wait and false.
func (b *Bucket) takeOrJoin(
	n float64, costs *announced.Costs, limit time.Duration, limited bool,
) (w *waiter, expected time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Now()
	w = &waiter{n: n, costs: costs, granted: make(chan struct{})}
	if w.sent, ok = b.take(now, n, costs); ok {
		close(w.granted)
		return w, 0, true
	}
	expected = b.expectedWait(now, n, costs)
	if limited && expected > limit {
		return nil, expected, false
	}
	w.place = b.line.PushBack(w)
	b.queued += n
	if b.first() == w {
		b.setTimer(now)
	}
	return w, expected, true
}

// leave gives up w's place in line. If w was granted its tokens meanwhile, they
// go to the line and then to the bucket.
func (b *Bucket) leave(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Now()
	b.advance(now)
	select {
	case <-w.granted:
		b.tokens += w.n
		if b.ledger != nil {
			b.ledger.Settle(w.sent, false)
		}
	default:
		b.remove(w)
	}
	b.serve(now)
	b.tokens = min(b.tokens, b.capacity)
}

// first returns the first in line, or nil if nobody waits.
// first requires that b.mu is held.
func (b *Bucket) first() *waiter {
	if e := b.line.Front(); e != nil {
		return e.Value.(*waiter)
	}
	return nil
}

// remove takes w out of the line.
// remove requires that b.mu is held.
func (b *Bucket) remove(w *waiter) {
	b.line.Remove(w.place)
	b.queued -= w.n
	if b.line.Len() == 0 {
		b.queued = 0 // drops what rounding left
		b.tokens = min(b.tokens, b.capacity)
	}
}

// serve wakes the callers at the front of the line whose tokens are there. It
// wakes nobody else, so that a token costs the same however long the line is.
// serve requires that b.mu is held and the time up to now is credited.
func (b *Bucket) serve(now time.Duration) {
	for w := b.first(); w != nil && (b.unpaced || b.tokens >= w.n-slack); w = b.first() {
		if w.sent = now; b.ledger != nil {
			var ok bool
			if w.sent, ok = b.ledger.Take(now, w.costs); !ok {
				break
			}
		}
		b.spend(now, w.n)
		b.remove(w)
		close(w.granted)
	}
	if b.line.Len() > 0 {
		b.setTimer(now)
	} else if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
}

// setTimer sets the timer for the first in line, who must exist and lack
// tokens. setTimer requires that b.mu is held.
func (b *Bucket) setTimer(now time.Duration) {
	w, d := b.first(), time.Duration(1)
	if !b.unpaced {
		d = max(d, b.until(now, w.n))
	}
	if b.ledger != nil {
		d = max(d, b.ledger.Wait(now, w.costs))
	}
	b.due = now + d
	if b.timer == nil {
		b.timer = time.AfterFunc(d, b.fire)
	} else {
		b.timer.Reset(d)
	}
}

// fire serves the line when the timer runs. A timer that was stopped or reset
// just as it ran changes nothing: the line is empty, or not due.
func (b *Bucket) fire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.first()
	if w == nil {
		return
	}
	now := b.Now()
	b.advance(now)
	if now >= b.due && !b.unpaced && !b.slotted && b.tokens < w.n {
		b.tokens = w.n // the whole wait is over; what is missing was lost to rounding
	}
	b.serve(now)
}
