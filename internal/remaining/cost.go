package remaining

import (
	"math"
	"slices"
)

// A cost is the number of units that a request takes from a limit. It is learned
// from pairs of requests that are sent back to back, so that other clients take
// almost nothing in between.
type cost struct {
	mean float64

	samples []float64
	next    int // the sample to replace
	takes   int
	learns  bool // there were requests whose cost is learned
	latest  int  // the number of the last request, or 0 if it is over
	pair    pair

	// grain divides all values that were announced: they may be rounded to it. Then
	// a pair shows nothing, and the cost is the mean over a span in which the units
	// that remain fall by many times as much.
	grain    uint64
	values   int     // how often a value differed from the one before
	last     float64 // value
	most     float64
	fall     float64 // in the span, with what came back
	requests int
}

// A pair is two requests that were sent back to back.
type pair struct {
	numbers   [2]int     // of the requests; 0 means no pair
	remaining [2]float64 // announced after each request; negative if not known yet
}

const (
	costSamples = 32
	fewSamples  = 4

	// pairInterval is the number of requests per pair.
	pairInterval = 8

	// manyGrains is how many times the grain a fall must be.
	manyGrains = 8
)

// see updates the grain with an announced value. Values that are not whole are exact.
func (c *cost) see(value float64) {
	if value != c.last {
		c.values++
		c.last = value
	}
	if value != math.Trunc(value) {
		c.grain = 1
	}
	c.most = max(c.most, value)
	for n := uint64(value); n != 0; {
		c.grain, n = n, c.grain%n
	}
}

// rounding returns by how much values may have been rounded.
func (c *cost) rounding() float64 {
	if c.values < fewSamples || c.grain <= 1 {
		return 0
	}
	if times := c.mean / float64(c.grain); c.most < manyGrains*float64(c.grain) && math.Abs(times-math.Round(times)) < .001*times {
		return 0 // what each request costs divides all values, too
	}
	return float64(c.grain - 1)
}

// span updates the cost with what was taken between two responses, and the number of
// requests that took it.
func (c *cost) span(fall float64, requests int) {
	if c.rounding() == 0 {
		return
	}
	c.fall += fall
	c.requests += requests
	if c.requests >= fewest && c.fall >= manyGrains*c.rounding() {
		c.mean = max(c.fall/float64(c.requests), 1)
		c.fall, c.requests = 0, 0
	}
}

// guess uses the mean over many requests, if it is higher, until the cost is learned
// from pairs.
func (c *cost) guess(mean float64, requests int) {
	if len(c.samples) < fewSamples && requests >= fewest && mean > c.mean {
		c.mean = mean
	}
}

// wantsPair reports whether the next request should follow the last one without
// a pause.
func (c *cost) wantsPair() bool {
	return (c.mean > 1 || len(c.samples) < fewSamples) && c.takes%pairInterval == 1 && c.rounding() == 0
}

// take records a request.
func (c *cost) take(number int, known float64) {
	if known == 0 && c.wantsPair() && c.latest > 0 && c.pair.numbers[1] == 0 {
		c.pair = pair{[2]int{c.latest, number}, [2]float64{-1, -1}}
	}
	c.takes++
	c.latest, c.learns = number, c.learns || known == 0
}

// guessed reports whether the mean is a guess by the first requests, which includes
// what other clients took.
func (c *cost) guessed() bool {
	return c.mean != 1 && len(c.samples) < fewSamples && c.learns && c.takes < 2*costSamples && c.rounding() == 0
}

// settle ends a request. If it was of a pair and showed nothing, the pair is over.
func (c *cost) settle(number int) {
	if number == c.latest {
		c.latest = 0
	}
	if i := slices.Index(c.pair.numbers[:], number); i >= 0 && c.pair.remaining[i] < 0 {
		c.pair = pair{}
	}
}

// hear updates the cost with the units that remained after a request.
func (c *cost) hear(number int, remaining float64) {
	i := slices.Index(c.pair.numbers[:], number)
	if number == 0 || i < 0 {
		return
	}
	c.pair.remaining[i] = remaining
	r := c.pair.remaining
	if r[0] < 0 || r[1] < 0 {
		return
	}
	// With nothing left, the second request may have needed more or been refused. With
	// more left than before, the service handled them in the opposite order.
	cost := r[0] - r[1]
	if c.pair = (pair{}); r[1] >= 1 && cost >= manyGrains*c.rounding() {
		c.learn(cost)
	}
}

// learn adds a sample, and computes the mean of all samples.
func (c *cost) learn(sample float64) {
	if len(c.samples) < costSamples {
		c.samples = append(c.samples, sample)
	} else {
		c.samples[c.next%costSamples] = sample
		c.next++
	}
	sorted := slices.Sorted(slices.Values(c.samples))
	switch n := len(sorted); {
	case sorted[n/8] <= 1: // few samples are too low; the higher ones include other clients' requests
		c.mean = 1
	case n >= fewSamples:
		// For costs distributed like those of language models, the cap is about the mean.
		sum, low := 0.0, sorted[n/4]
		for _, s := range sorted {
			sum += s
		}
		c.mean = min(sum/float64(n), 1.35*low)
	}
}
