package tokens

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"time"

	"example.com/awsretry/internal/announced"
)

// A TooLongError is the error of a wait that did not begin.
type TooLongError struct {
	Expected time.Duration // how long the wait would have been at the present rate
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("tokens: the expected wait of %v is too long", e.Expected)
}

// Wait takes n tokens. If there are too few, it waits for them in line. n
// must not exceed the capacity.
//
// If the wait is not expected to end before ctx's deadline, Wait returns a
// [*TooLongError] at once. If ctx ends first, Wait returns its cause and takes
// nothing.
func (b *Bucket) Wait(ctx context.Context, n float64) error {
	_, err := b.WaitFor(ctx, n, announced.Request{}, 0, false)
	return err
}

// WaitFor is Wait for a request. If limited, it also returns a [*TooLongError] for
// a wait that is expected to be longer than limit. It returns the request's send
// time.
func (b *Bucket) WaitFor(
	ctx context.Context, n float64, req announced.Request, limit time.Duration, limited bool,
) (sent time.Duration, err error) {
	if sent, ok := b.TakeNow(n, req); ok {
		return sent, nil
	}

	// The context's methods may panic; they are called before the caller joins the
	// line, so that a panic leaves nobody in it.
	done := ctx.Done()
	deadline, hasDeadline := ctx.Deadline()
	left := clockEnd
	if hasDeadline {
		left = min(time.Until(deadline), clockEnd)
	}
	if !limited {
		limit = clockEnd
	}
	w, err := b.join(n, req, limit, left)
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err != nil:
		return 0, err
	}

	// Wait for the grant. What a service announces may make the wait longer than
	// expected.
	var late <-chan time.Time
	if w.limit < clockEnd {
		timer := time.NewTimer(w.limit + 1)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-w.granted:
		if ctx.Err() == nil {
			return w.sent, nil
		}
	case <-done:
	case <-late:
		if expected, gone := b.giveUp(w); gone {
			return 0, &TooLongError{w.limit + expected}
		}
		return w.sent, nil
	}
	b.leave(w)
	return 0, context.Cause(ctx)
}

// OnWait makes f the function that is called when a caller has joined the line,
// with how many were in it and how long the wait is expected to be.
func (b *Bucket) OnWait(f func(ahead int, expected time.Duration)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waits = f
}

// giveUp gives up w's place in line unless w has been granted its tokens. It
// returns how much longer w would have waited.
func (b *Bucket) giveUp(w *waiter) (expected time.Duration, gone bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.granted:
		return 0, false
	default:
	}
	now := b.Now()
	b.advance(now)
	b.remove(w)
	b.serve(now)
	return max(b.expectedWait(now, w.n, w.req), 1), true
}

// A waiter is a place in line.
type waiter struct {
	n       float64
	req     announced.Request
	limit   time.Duration // when it gives up; clockEnd if it does not
	arrival int           // in the order of joining the line, from 1
	sent    time.Duration // send time; written before granted is closed
	queue   *queue        // guarded by the bucket's mutex, with place
	place   *list.Element
	granted chan struct{} // closed when the waiter has its tokens, with the bucket's mutex held
}

// A queue is those in line who wait for the same limits.
type queue struct {
	announced.Line
	waiters list.List // of *waiter, in the order of arrival; not empty
	tokens  float64   // total of the tokens that they wait for
}

func (q *queue) first() *waiter { return q.waiters.Front().Value.(*waiter) }

// join takes the last place in line. If the expected wait exceeds the limit or what
// is left until the caller's deadline, it returns an error instead.
func (b *Bucket) join(n float64, req announced.Request, limit, left time.Duration) (w *waiter, err error) {
	b.mu.Lock()
	waits, ahead, expected := b.waits, b.waiting, time.Duration(0)
	defer func() {
		if b.mu.Unlock(); w != nil && waits != nil {
			waits(ahead, expected)
		}
	}()
	now := b.Now()
	if left < clockEnd {
		limit = min(limit, max(left-b.trip(), 0)-1)
	}
	if limit < clockEnd || waits != nil {
		if expected = b.expectedWait(now, n, req); expected > max(limit, 0) {
			return nil, &TooLongError{expected}
		}
	}
	w = &waiter{n: n, req: req, limit: clockEnd, granted: make(chan struct{})}
	if b.limits != nil { // what a service announces may make the wait longer
		w.limit = limit
	}
	b.advance(now)
	b.joined++
	w.arrival = b.joined
	b.waiting++
	b.enqueue(w)
	b.serve(now)
	return w, nil
}

// trip returns how long a request takes, as far as announced limits show.
// trip requires that b.mu is held.
func (b *Bucket) trip() time.Duration {
	if b.limits == nil {
		return 0
	}
	return b.limits.Trip()
}

// leave gives up w's place in line. If w was granted its tokens meanwhile, they
// go to the line and then to the bucket; a slot is lost.
func (b *Bucket) leave(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Now()
	b.advance(now)
	select {
	case <-w.granted:
		if !b.slotted && !b.unpaced {
			b.tokens += w.n
		}
		if b.limits != nil {
			b.limits.Settle(w.sent, false)
		}
	default:
		b.remove(w)
	}
	b.serve(now)
	b.tokens = min(b.tokens, b.capacity)
}

// limitsOf returns the limits that a request needs.
// limitsOf requires that b.mu is held.
func (b *Bucket) limitsOf(req announced.Request) announced.Set {
	if b.limits == nil {
		return 0
	}
	return b.limits.Of(req)
}

// enqueue adds w, which came last, to the queue of its limits.
// enqueue requires that b.mu is held.
func (b *Bucket) enqueue(w *waiter) {
	limits := b.limitsOf(w.req)
	i := slices.IndexFunc(b.queues, func(q *queue) bool { return q.Limits == limits })
	if i < 0 {
		i = len(b.queues)
		b.queues = append(b.queues, &queue{Line: announced.Line{Limits: limits}})
	}
	w.queue = b.queues[i]
	w.place = w.queue.waiters.PushBack(w)
	w.queue.tokens += w.n
	w.queue.Add(w.req)
}

// remove removes w from the line.
// remove requires that b.mu is held.
func (b *Bucket) remove(w *waiter) {
	q := w.queue
	q.waiters.Remove(w.place)
	q.tokens -= w.n
	q.Remove(w.req)
	i := slices.Index(b.queues, q)
	if q.waiters.Len() == 0 {
		b.queues = slices.Delete(b.queues, i, i+1)
	}
	for ; i+1 < len(b.queues) && b.queues[i+1].first().arrival < b.queues[i].first().arrival; i++ {
		b.queues[i], b.queues[i+1] = b.queues[i+1], b.queues[i]
	}
	if b.waiting--; b.waiting == 0 {
		b.tokens = min(b.tokens, b.capacity)
	}
}

// regroup makes the queues anew if requests may need other limits than before.
// regroup requires that b.mu is held.
func (b *Bucket) regroup(now time.Duration) {
	if b.waiting == 0 || b.limits == nil || b.routing == b.limits.Routing(now) {
		return
	}
	b.routing = b.limits.Routing(now)
	line := make([]*waiter, 0, b.waiting)
	for _, q := range b.queues {
		for e := q.waiters.Front(); e != nil; e = e.Next() {
			line = append(line, e.Value.(*waiter))
		}
	}
	slices.SortFunc(line, func(v, w *waiter) int { return v.arrival - w.arrival })
	b.queues = nil
	for _, w := range line {
		b.enqueue(w)
	}
}

// serve wakes the callers whose tokens are available and whom no limit holds back,
// in the order of arrival. It wakes nobody else, so that a token costs the same
// however long the line is. Nobody takes from a limit before a caller that came
// earlier and waits for it. serve requires that b.mu is held and that the tokens up
// to now have been added.
func (b *Bucket) serve(now time.Duration) {
	b.regroup(now)
	wait, held := clockEnd, announced.Set(0)
	b.awaited = 0
	for i := 0; i < len(b.queues); {
		q := b.queues[i]
		w := q.first()
		if !b.unpaced && b.tokens < w.n-slack {
			if d := b.until(now, w.n); d < wait {
				wait, b.awaited = d, w.n
			}
			break
		}
		q.Held = q.Limits & held
		if w.sent = now; q.Held == 0 && b.limits != nil {
			var d time.Duration
			if w.sent, q.Held, d = b.limits.Take(now, w.req); q.Held != 0 {
				held |= q.Held
				wait = min(wait, d)
			}
		}
		if q.Held != 0 {
			i++
			continue
		}
		b.spend(now, w.n)
		b.remove(w) // another queue, or the next one in q, is now at i
		close(w.granted)
	}
	if b.waiting > 0 {
		b.setTimer(now, wait)
	} else if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
}

// setTimer sets the timer for the next in line. setTimer requires that b.mu is held.
func (b *Bucket) setTimer(now, wait time.Duration) {
	d := max(wait, 1)
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
	if b.waiting == 0 {
		return
	}
	now := b.Now()
	b.advance(now)
	if now >= b.due && !b.slotted {
		b.tokens = max(b.tokens, b.awaited) // the whole wait is over; anything missing was lost to rounding
	}
	b.serve(now)
}
