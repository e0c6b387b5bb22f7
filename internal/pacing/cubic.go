package pacing

import (
	"math"
	"time"
)

// Cubic is the arithmetic of the AWS SDKs (AWS SDKs and Tools Reference Guide,
// "Retry behavior"; CUBIC is a congestion control of TCP).
type Cubic struct {
	limits         Limits
	meter          Meter
	beta, scale    float64 // of the curve of one process
	curve          curve
	limiting       bool // from the first throttling response on
	beginning      bool // from Begin to the next throttling response
	updated        time.Duration
	adoptedUntil   time.Duration // until then, the meter has not measured an adopted rate
	rate, capacity float64
}

// NewCubic returns the law with beta, the fraction of the rate that is left
// after a throttling response, and scale, in requests per second per second
// cubed. It measures outcomes of all kinds.
func NewCubic(limits Limits, meter Meter, beta, scale float64) *Cubic {
	return &Cubic{limits: limits, meter: meter, beta: beta, scale: scale, curve: curve{beta: beta, scale: scale}}
}

// Update implements [Law]. It ignores the send time except after Begin.
func (c *Cubic) Update(now, sent time.Duration, throttled bool) {
	c.meter.Count(now, 1)
	measured := c.meter.Rate()
	if now < c.adoptedUntil { // there is no measurement at that rate yet
		measured = max(measured, c.rate)
	}
	elapsed := now - c.updated
	c.updated = now
	var rate float64
	switch {
	case c.beginning:
		trip := 0.0
		if sent > 0 {
			trip = (now - sent).Seconds()
		}
		period := max(beginDoubling, 2*trip)
		if !throttled {
			c.rate *= math.Exp2(min(elapsed.Seconds()/period, 1))
			c.capacity = max(c.rate, c.limits.MinCapacity)
			return
		}
		c.beginning = false
		rate = c.curve.cut(now, c.rate/math.Exp2(trip/period)) // the measurements lag far behind the rate
	case throttled && c.limiting:
		rate = c.curve.cut(now, min(measured, c.rate))
	case throttled:
		rate = c.curve.cut(now, measured)
		c.limiting = true
	default:
		rate = c.curve.grow(now)
	}
	rate = min(rate, 2*measured) // or the rate of a caller that sends little would grow without bound
	c.rate, c.capacity = max(rate, c.limits.MinRate), max(rate, c.limits.MinCapacity)
}

// Adopt implements [Law].
func (c *Cubic) Adopt(now time.Duration, rate float64) { c.Resume(now, rate, rate/c.curve.beta) }

// Resume implements [Law].
func (c *Cubic) Resume(now time.Duration, rate, limit float64) {
	c.limiting, c.beginning = true, false
	c.updated, c.adoptedUntil = now, now+2*c.meter.interval
	c.meter.adopt(now, rate)
	c.curve.throttledAt, c.curve.lastMax = now, limit
	c.curve.plateau = math.Cbrt((limit - rate) / c.curve.scale)
	c.rate = max(rate, c.limits.MinRate)
	c.capacity = max(c.rate, c.limits.MinCapacity)
}

// SumOf implements [Law]. The sum of equal curves is as many times as steep, and
// a throttling response cuts one of them.
func (c *Cubic) SumOf(now time.Duration, processes float64) {
	c.curve.scale, c.curve.beta = c.scale*processes, 1-(1-c.beta)/processes
	if c.limiting && !c.beginning {
		c.Resume(now, c.rate, c.curve.lastMax)
	}
}

// Limit implements [Law].
func (c *Cubic) Limit() float64 {
	if c.beginning {
		return 0
	}
	return c.curve.lastMax
}

// Measure implements [Law].
func (c *Cubic) Measure(now time.Duration, _ bool) { c.meter.Count(now, 1) }

// Begin implements [Law].
func (c *Cubic) Begin(now time.Duration, rate float64) {
	c.Adopt(now, rate)
	c.beginning = true
}

// beginDoubling is how many seconds the rate takes to double after Begin, unless
// two round trips take longer.
const beginDoubling = 0.5

// Pace implements [Law].
func (c *Cubic) Pace() (rate, capacity float64) { return c.rate, c.capacity }

// Measured implements [Law].
func (c *Cubic) Measured() float64 { return c.meter.Rate() }

// A curve is the send rate as a cubic function of the time since the last
// throttling response. It rises fast, then hardly at all near the rate that was
// throttled, and then ever faster.
type curve struct {
	beta, scale float64
	lastMax     float64       // rate that was throttled
	plateau     float64       // seconds from throttledAt until the rate is lastMax again
	throttledAt time.Duration // 0, the creation, before the first throttling
}

// cut starts the curve again below lastMax, the rate that was throttled at now,
// and returns the rate there.
func (c *curve) cut(now time.Duration, lastMax float64) float64 {
	c.throttledAt, c.lastMax = now, lastMax
	c.plateau = math.Cbrt(lastMax * (1 - c.beta) / c.scale)
	return lastMax * c.beta
}

// grow returns the rate at now.
func (c *curve) grow(now time.Duration) float64 {
	x := (now - c.throttledAt).Seconds() - c.plateau
	return c.scale*x*x*x + c.lastMax
}
