// Package tokens has buckets of tokens, and the line of callers who wait for
// them, first come first served.
package tokens

import (
	"math"
	"sync"
	"time"

	"example.com/awsretry/internal/announced"
)

// A Bucket holds tokens that are refilled over time. Callers that find too few of
// them wait in line, first come first served. It ignores requests unless Limit was
// called.
//
// It is safe for concurrent use.
type Bucket struct {
	start time.Time // zero of the clock; written once

	mu       sync.Mutex    // guards the fields below
	rate     float64       // tokens per second
	capacity float64       // of tokens while nobody waits; see tokensAt for more
	tokens   float64       // at the time at
	at       time.Duration // time up to which tokens are credited; never decreases
	used     time.Duration // when a token was last taken
	lost     float64       // tokens that were not added because the bucket was full, since TakeLost

	slotted bool    // tokens are slots
	slots   []slots // that can still be used
	kept    float64 // tokens from before the slots; 0 after a slot was used

	unpaced bool              // nobody waits for tokens
	limits  *announced.Ledger // what callers wait for, too; nil: nothing

	waits func(ahead int, expected time.Duration) // see OnWait; may be nil

	waiting int         // how many callers wait
	joined  int         // how many callers have waited
	queues  []*queue    // of those who wait, in the order in which their first ones came
	routing int         // of the limits when the queues were made
	timer   *time.Timer // set for the next in line; nil while the line is empty

	// Unused while the line is empty.
	due     time.Duration // when the timer is expected to run
	awaited float64       // the number of tokens at that time; 0 if the timer is set for the limits
}

const (
	// slack compensates rounding: ten times a tenth of a token is a whole one.
	slack = 1e-9

	// clockEnd is where the clock stops, after 146 years. The sum of two times
	// up to then does not overflow.
	clockEnd time.Duration = 1<<62 - 1

	// maxLate limits how much of a timer's delay is compensated. Without it, a
	// process that was stopped would serve the whole line at once when it resumes.
	maxLate = 100 * time.Millisecond

	// MinRate is the lowest rate, per second, at which a token is added before the
	// clock ends.
	MinRate = 1 / (float64(clockEnd) / float64(time.Second))
)

// New returns a bucket that is full at start. rate is in tokens per second.
func New(start time.Time, rate, capacity float64) *Bucket {
	return &Bucket{start: start, rate: rate, capacity: capacity, tokens: capacity, used: -clockEnd}
}

// Now returns the time since the start, at most 146 years, on the monotonic clock.
func (b *Bucket) Now() time.Duration { return min(time.Since(b.start), clockEnd) }

// Take takes n tokens and reports true if there are enough and nobody waits.
func (b *Bucket) Take(n float64) bool {
	_, ok := b.TakeNow(n, announced.Request{})
	return ok
}

// TakeNow is Take for a request. It returns the send time, so that the caller need
// not read the clock again.
func (b *Bucket) TakeNow(n float64, req announced.Request) (sent time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take(b.Now(), n, req)
}

// takeUpTo takes n whole tokens, or as many as there are, also before those in line.
func (b *Bucket) takeUpTo(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Now()
	b.advance(now)
	taken := max(min(float64(n), math.Floor(b.tokens+slack)), 0)
	b.spend(now, taken)
	b.serve(now)
	return int(taken)
}

// Limit makes callers wait for limits, too. Unless paced, they wait only for limits
// until Pace is called.
func (b *Bucket) Limit(limits *announced.Ledger, paced bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limits, b.unpaced, b.routing = limits, !paced, -1
}

// Pace makes callers wait for tokens, as they do unless Limit was called.
func (b *Bucket) Pace() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unpaced = false
	now := b.Now()
	b.advance(now)
	b.serve(now)
}

// Locked calls f, which may change the limits, and serves the line.
func (b *Bucket) Locked(f func(now time.Duration)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Now()
	f(now)
	b.advance(now)
	b.serve(now)
}

// Put adds n tokens, up to the capacity. A slot cannot be put back: it is over. While
// nobody waits for tokens, none were taken.
func (b *Bucket) Put(n float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.slotted || b.unpaced:
		n = 0
	case b.rate == 0 && b.waiting == 0: // no need of the clock
		b.tokens = min(b.tokens+n, b.capacity)
		return
	}
	b.put(b.Now(), n)
}

// SetTokens replaces the tokens by n, at most the capacity.
func (b *Bucket) SetTokens(n float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Now()
	b.advance(now)
	b.tokens = 0
	b.put(now, n)
}

// SetRate changes the rate and the capacity at the time now. Tokens up to then are
// added at the old rate, and those above the new capacity are dropped.
func (b *Bucket) SetRate(now time.Duration, rate, capacity float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setRate(now, rate, capacity)
}

// TakeLost returns how many tokens were lost since the last call because the
// bucket was full.
func (b *Bucket) TakeLost() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(b.Now())
	lost := b.lost
	b.lost = 0
	return lost
}

// Tokens returns the number of tokens, at most the capacity.
func (b *Bucket) Tokens() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return min(b.tokensAt(b.Now())+slack, b.capacity)
}

// Waiting returns how many callers wait.
func (b *Bucket) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting
}

// Line returns how many callers wait, and how long a new caller would wait for n
// tokens at the present rate, at most 146 years, if its request were the one that
// waits longest.
func (b *Bucket) Line(n float64) (waiting int, expected time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Now()
	expected = b.waitAfter(now, n, nil, ^announced.Set(0), announced.Request{})
	for _, q := range b.queues {
		expected = max(expected, b.expectedWait(now, n, q.first().req))
	}
	return b.waiting, expected
}

// ExpectedWait returns how long a new caller would wait for n tokens at the present
// rate, at most 146 years.
func (b *Bucket) ExpectedWait(n float64, req announced.Request) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.expectedWait(b.Now(), n, req)
}

// take takes n tokens and reports true if there are enough and nobody waits.
// take requires that b.mu is held.
func (b *Bucket) take(now time.Duration, n float64, req announced.Request) (sent time.Duration, ok bool) {
	tokens := b.tokensAt(now)
	if b.waiting > 0 || !b.unpaced && tokens < n-slack {
		return 0, false
	}
	if sent = now; b.limits != nil {
		var held announced.Set
		if sent, held, _ = b.limits.Take(now, req); held != 0 {
			return 0, false
		}
	}
	b.lose(now, tokens)
	b.tokens, b.at = tokens, max(b.at, now)
	b.spend(now, n)
	return sent, true
}

// spend takes n tokens, of which rounding may have lost a part, or none while
// nobody waits for tokens. spend requires that b.mu is held.
func (b *Bucket) spend(now time.Duration, n float64) {
	if b.unpaced {
		return
	}
	b.tokens, b.used = max(b.tokens-n, 0), now
	if b.slotted {
		b.kept = 0
		b.dropSlots(now, int(n))
	}
}

// put adds n tokens, up to the capacity, and serves the line.
// put requires that b.mu is held.
func (b *Bucket) put(now time.Duration, n float64) {
	b.advance(now)
	b.tokens = min(b.tokens+n, b.capacity)
	b.serve(now)
}

// setRate changes the rate and the capacity, and serves the line.
// setRate requires that b.mu is held.
func (b *Bucket) setRate(now time.Duration, rate, capacity float64) {
	b.advance(now)
	b.rate, b.capacity = rate, capacity
	b.tokens = min(b.tokens, capacity)
	b.serve(now)
}

// advance adds the tokens up to now.
// advance requires that b.mu is held.
func (b *Bucket) advance(now time.Duration) {
	tokens := b.tokensAt(now)
	b.lose(now, tokens)
	b.tokens, b.at = tokens, max(b.at, now)
}

// lose counts the tokens that were lost up to now, when tokens are left.
// lose requires that b.mu is held.
func (b *Bucket) lose(now time.Duration, tokens float64) {
	if now > b.at && !b.slotted {
		b.lost += max(b.tokens+(now-b.at).Seconds()*b.rate-tokens, 0)
	}
}

// tokensAt returns the number of tokens at now. A time before the last one adds
// nothing. tokensAt does not mutate b, so that rounding does not add up however
// often it is called. It requires that b.mu is held.
//
// While a caller waits, the tokens may exceed the capacity by those of maxLate:
// they were added while the timer was late, and belong to the line. Otherwise, with
// a capacity of 1, the timer's delay would lengthen every wait.
func (b *Bucket) tokensAt(now time.Duration) float64 {
	if b.slotted {
		return float64(b.readySlots(now))
	}
	if now <= b.at {
		return b.tokens
	}
	limit := b.capacity
	if b.waiting > 0 {
		limit += b.rate * maxLate.Seconds()
	}
	return min(b.tokens+(now-b.at).Seconds()*b.rate, limit)
}

// expectedWait returns how long a caller that arrives at now would wait for n
// tokens at the present rate, after those in line that nothing holds back but what
// holds it back, too. expectedWait requires that b.mu is held and does not mutate b.
func (b *Bucket) expectedWait(now time.Duration, n float64, req announced.Request) time.Duration {
	limits := b.limitsOf(req)
	var ahead []*announced.Line
	for _, q := range b.queues {
		if q.Held&^limits != 0 {
			continue
		}
		if n += q.tokens; b.limits != nil {
			ahead = append(ahead, &q.Line)
		}
	}
	return b.waitAfter(now, n, ahead, limits, req)
}

// waitAfter returns how long a request waits for its limits, after those ahead, and
// until there are n tokens. waitAfter requires that b.mu is held and does not mutate
// b.
func (b *Bucket) waitAfter(
	now time.Duration, n float64, ahead []*announced.Line, limits announced.Set, req announced.Request,
) (expected time.Duration) {
	if b.limits != nil {
		expected = b.limits.Wait(now, ahead, limits, req)
	}
	if b.unpaced || n <= b.tokensAt(now)+slack {
		return expected
	}
	return max(expected, b.until(now, n))
}

// until returns the time until there are n tokens. It requires that b.mu is held
// and does not mutate b.
func (b *Bucket) until(now time.Duration, n float64) time.Duration {
	if b.slotted {
		return b.untilSlot(now, int(n))
	}
	return b.durationFor(n - b.tokensAt(now))
}

// durationFor returns how long it takes to add that many tokens, at most clockEnd.
// It requires that b.mu is held and does not mutate b.
func (b *Bucket) durationFor(tokens float64) time.Duration {
	// Less than a thousandth of a nanosecond is rounding.
	d := math.Ceil(tokens/b.rate*1e9 - 1e-3)
	if !(d < float64(clockEnd)) { // NaN too
		return clockEnd
	}
	return max(time.Duration(d), 0)
}
