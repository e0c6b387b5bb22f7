package main

import (
	"math"
	"time"
)

// A line is a bucket of send tokens and those who wait for one, first come
// first served, as internal/tokens has them.
type line struct {
	queue          *queue
	rate, capacity float64
	tokens         float64
	at             time.Duration
	waiting        []func()
	timer          int // number of the last timer; earlier ones do nothing
}

// lateness is for how long the tokens of a line may exceed the capacity.
const lateness = 100 * time.Millisecond

// acquire calls send as soon as there is a token for it.
func (l *line) acquire(send func()) {
	l.advance()
	l.waiting = append(l.waiting, send)
	if len(l.waiting) == 1 {
		l.serve()
	}
}

// setRate changes the rate and the capacity.
func (l *line) setRate(rate, capacity float64) {
	if rate == l.rate && capacity == l.capacity {
		return
	}
	l.advance()
	l.rate, l.capacity = rate, capacity
	l.tokens = min(l.tokens, capacity)
	l.serve()
}

// advance credits the tokens that came back up to now.
func (l *line) advance() {
	most := l.capacity
	if len(l.waiting) > 0 {
		most += l.rate * lateness.Seconds()
	}
	l.tokens = min(l.tokens+l.rate*(l.queue.now-l.at).Seconds(), most)
	l.at = l.queue.now
}

// serve gives out the tokens that there are, and sets the timer for the next.
func (l *line) serve() {
	l.advance()
	for len(l.waiting) > 0 && l.tokens >= 1-rounding {
		l.tokens = max(l.tokens-1, 0)
		send := l.waiting[0]
		l.waiting = l.waiting[1:]
		send()
	}
	if len(l.waiting) == 0 || l.rate == 0 {
		return
	}
	l.timer++
	number := l.timer
	l.queue.after(time.Duration(math.Ceil((1-l.tokens)/l.rate*1e9)), func() {
		if number == l.timer {
			l.serve()
		}
	})
}
