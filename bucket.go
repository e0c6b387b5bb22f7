package awsretry

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// A bucket holds tokens that come back with time, and the line of those who wait for them.
//
// The line is served first come first served: whoever makes tokens available (the timer, a token put back, a new rate)
// takes them out for the first in line and wakes that one waiter, so a token costs the same however long the line is.
// One timer, set for the first in line, exists while somebody waits and only then.
type bucket struct {
	start time.Time // the clock's zero; written once, before the bucket is shared

	mu       sync.Mutex    // guards everything below
	tokens   float64       // those that were there at the time at; at most capacity while nobody waits
	capacity float64       // see level for how much more the line may get
	rate     float64       // tokens that come back in a second
	at       time.Duration // up to here the passing of time is credited to tokens; never goes back
	first    *waiter       // the line; nil when nobody waits
	last     *waiter
	waiting  int           // how many are in line
	queued   float64       // the tokens that they wait for, all together
	due      time.Duration // when first is to be granted at the present rate; means nothing while the line is empty
	timer    *time.Timer   // nil while the line is empty
	fired    int           // how often the timer ran; the tests compare it with the number of grants
}

// A waiter is one place in the line. Its fields are guarded by the bucket's mutex.
type waiter struct {
	n          float64
	prev, next *waiter
	granted    bool
	wake       chan struct{} // closed by the grant
}

const (
	// Sums of fractions drift: ten times a tenth of a token is to be a whole one.
	tokenSlack = 1e-9
	// Beyond this the clock is taken to stand, so that the sum of two readings cannot overflow. 146 years.
	clockEnd time.Duration = 1 << 62
	// maxLate bounds how much of a timer's lateness is made up for. Without it,
	// a process that was stopped would send everything at once when it goes on.
	maxLate = 100 * time.Millisecond
	// At a lower rate, per second, no timer could wait for a token.
	minRate = 1 / (float64(clockEnd) / float64(time.Second))
)

// now is the time since the bucket was made, on the monotonic clock.
func (b *bucket) now() time.Duration { return min(time.Since(b.start), clockEnd) }

// take takes n tokens and waits in line for them. n must not be above what capacity can become. A wait that is expected to be
// longer than longest, or not to end before the context's deadline, is not begun: the error is then refusal, with the reason. The
// context's cause is returned when ctx ends first; the tokens are then where they were.
func (b *bucket) take(ctx context.Context, n float64, longest time.Duration, refusal error) error {
	if b.takeNow(n) {
		return nil
	}
	// Foreign code, both: called before there is a place in line that its panic could leave behind.
	done := ctx.Done()
	deadline, ends := ctx.Deadline()
	limit := longest
	if ends {
		limit = min(limit, max(time.Until(deadline), 0)-1)
	}
	w, tooLong := b.takeOrJoin(n, limit)
	switch {
	case w == nil && tooLong == 0:
		return nil
	case w == nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case w == nil && tooLong > longest:
		return fmt.Errorf("%w: the expected wait of %v is longer than MaxWait, %v", refusal, tooLong, longest)
	case w == nil:
		return fmt.Errorf("%w: the expected wait of %v would not end before the context's deadline", refusal, tooLong)
	}
	select {
	case <-w.wake:
		if ctx.Err() == nil {
			return nil
		}
	case <-done:
	}
	b.leave(w)
	return context.Cause(ctx)
}

// takeNow takes n tokens if they are there and nobody is in line for them.
func (b *bucket) takeNow(n float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tryTake(b.now(), n)
}

// takeOrJoin takes n tokens, or else makes a new last place in line, which it returns. It does neither, and returns the expected
// wait, where that is longer than limit.
func (b *bucket) takeOrJoin(n float64, limit time.Duration) (w *waiter, tooLong time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if b.tryTake(now, n) {
		return nil, 0
	}
	if expected := b.expectedWait(now, n); expected > limit {
		return nil, max(expected, 1)
	}
	w = &waiter{n: n, prev: b.last, wake: make(chan struct{})}
	b.last = w
	b.waiting++
	b.queued += n
	if w.prev != nil {
		w.prev.next = w
		return w, 0
	}
	b.first = w
	b.setTimer(now)
	return w, 0
}

// leave takes w out of the line. A grant that came at the same moment goes back, and on to the next in line.
func (b *bucket) leave(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.advance(now)
	if w.granted {
		b.tokens += w.n
	} else {
		b.unlink(w)
	}
	b.serve(now)
	b.tokens = min(b.tokens, b.capacity)
}

// tryTake takes n tokens if they are there and nobody is in line for them. b.mu must be held.
func (b *bucket) tryTake(now time.Duration, n float64) bool {
	if b.first != nil || b.level(now) < n-tokenSlack {
		return false
	}
	b.advance(now)
	b.tokens = max(b.tokens-n, 0)
	return true
}

// put adds n tokens, up to the capacity. b.mu must be held.
func (b *bucket) put(now time.Duration, n float64) {
	b.advance(now)
	b.tokens = min(b.tokens+n, b.capacity)
	b.serve(now)
}

// setRate credits the time up to now at the old rate, then changes rate and capacity and cuts the tokens to the latter.
// b.mu must be held.
func (b *bucket) setRate(now time.Duration, rate, capacity float64) {
	b.advance(now)
	b.rate, b.capacity = rate, capacity
	b.tokens = min(b.tokens, capacity)
	b.serve(now)
}

// level is the number of tokens at now. A clock that went back credits nothing. Asking changes nothing, so that however often
// it is asked, no rounding adds up. b.mu must be held.
//
// While somebody waits, up to maxLate's worth of tokens may exceed the
// capacity: they came because the timer is late, and the line gets them. With a
// capacity of 1 the timer's lateness would otherwise add to every wait.
func (b *bucket) level(now time.Duration) float64 {
	if now <= b.at {
		return b.tokens
	}
	limit := b.capacity
	if b.first != nil {
		limit += b.rate * maxLate.Seconds()
	}
	return min(b.tokens+(now-b.at).Seconds()*b.rate, limit)
}

// advance credits the time up to now. b.mu must be held.
func (b *bucket) advance(now time.Duration) {
	b.tokens, b.at = b.level(now), max(b.at, now)
}

// serve grants from the front of the line as far as the tokens go, and sets the timer for whoever is first then.
// b.mu must be held, and the time up to now be credited.
func (b *bucket) serve(now time.Duration) {
	for b.first != nil && b.tokens >= b.first.n-tokenSlack {
		w := b.first
		b.tokens = max(b.tokens-w.n, 0)
		b.unlink(w)
		w.granted = true
		close(w.wake)
	}
	if b.first != nil {
		b.setTimer(now)
	} else if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
}

// setTimer sets the timer for the first in line, which must exist and lack tokens. b.mu must be held.
func (b *bucket) setTimer(now time.Duration) {
	d := min(max(b.timeFor(b.first.n-b.level(now)), 1), clockEnd-now)
	b.due = now + d
	if b.timer == nil {
		b.timer = time.AfterFunc(d, b.fire)
	} else {
		b.timer.Reset(d)
	}
}

// expectedWait is how long one who came for n tokens at now would stand in line at the present rate: until the tokens that
// those in line wait for have come back, and n more. b.mu must be held.
func (b *bucket) expectedWait(now time.Duration, n float64) time.Duration {
	return b.timeFor(b.missing(now, n))
}

// missing is how many tokens have to come back before one who came for n tokens at now gets them. b.mu must be held.
func (b *bucket) missing(now time.Duration, n float64) float64 {
	if missing := b.queued + n - b.level(now); missing > tokenSlack {
		return missing
	}
	return 0
}

// timeFor is how long so many tokens take to come back, clockEnd at most. b.mu must be held.
func (b *bucket) timeFor(tokens float64) time.Duration {
	// The thousandth of a nanosecond is float noise that would otherwise round up to a whole one.
	d := math.Ceil(tokens/b.rate*1e9 - 1e-3)
	if !(d < float64(clockEnd)) {
		return clockEnd
	}
	return max(time.Duration(d), 0)
}

// fire is the timer's function. One that comes late, after its timer was set anew or stopped, finds a line that is empty or
// not due yet and changes nothing.
func (b *bucket) fire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fired++
	if b.first == nil {
		return
	}
	now := b.now()
	b.advance(now)
	if now >= b.due && b.tokens < b.first.n {
		// The wait was as long as it had to be; what still lacks went in rounding.
		b.tokens = b.first.n
	}
	b.serve(now)
}

// unlink takes w, which must be in line, out of it. b.mu must be held.
func (b *bucket) unlink(w *waiter) {
	if b.first == b.last { // the line ends
		b.tokens = min(b.tokens, b.capacity)
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		b.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		b.last = w.prev
	}
	w.prev, w.next = nil, nil
	b.waiting--
	b.queued -= w.n
	if b.waiting == 0 {
		b.queued = 0 // what great and small numbers left by rounding
	}
}
