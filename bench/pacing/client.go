package main

import (
	"math"
	"time"

	"example.com/awsretry/internal/pacing"
)

// The rules of the AWS SDKs for retries of throttled requests.
const (
	maxAttempts  = 3
	quotaSize    = 500.0
	retryCost    = 10.0
	successGives = 1.0
	maxDelay     = 20.0 // seconds
)

// A client has one send rate, one retry token bucket, and callers that share
// them.
type client struct {
	*simulation
	number   int
	law      pacing.Law
	limiting bool // from the first throttling response on
	line     line
	quota    float64
}

// call makes a call and then calls done.
func (c *client) call(done func()) {
	begin := c.now
	c.attempt(1, successGives, func(succeeded bool) {
		c.record(c.number, begin, succeeded)
		done()
	})
}

// attempt makes the attempt with the number n, and those after it. A success
// puts refund back into the retry bucket.
func (c *client) attempt(n int, refund float64, done func(succeeded bool)) {
	c.acquire(func() {
		sent := time.Duration(0) // took no token
		if c.limiting {
			sent = c.now
		}
		throttled, trip := c.send()
		c.after(trip, func() {
			c.update(sent, throttled)
			switch {
			case !throttled:
				c.quota = min(c.quota+refund, quotaSize)
				done(true)
			case n == maxAttempts || c.quota < retryCost:
				done(false)
			default:
				c.quota -= retryCost
				c.after(c.delay(n), func() { c.attempt(n+1, retryCost, done) })
			}
		})
	})
}

// acquire calls send when there is a send token, at once before the first
// throttling.
func (c *client) acquire(send func()) {
	if !c.limiting {
		send()
		return
	}
	c.line.acquire(send)
}

// update takes the outcome of a request that was sent at sent.
func (c *client) update(sent time.Duration, throttled bool) {
	c.law.Update(c.now, sent, throttled)
	c.line.setRate(c.law.Pace())
	c.limiting = c.limiting || throttled
}

// delay returns the delay after the attempt with the number n.
func (c *client) delay(n int) time.Duration {
	delay := seconds(c.random.Float64() * min(math.Exp2(float64(n-1)), maxDelay))
	if asked := c.scenario.retryAfter; asked > 0 {
		spread := min(asked/4, 5*time.Second)
		delay = max(delay, asked+seconds(c.random.Float64()*spread.Seconds()))
	}
	return delay
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
