package announced

import "slices"

// A cost is what a request takes of a limit. It is learned from pairs of requests
// that were sent at once, so that others take next to nothing between them.
type cost struct {
	mean float64
	most float64 // what most requests do not exceed

	samples []float64
	next    int // which is replaced
	takes   int
	near    bool // the last request followed another one at once
	pair    pair
}

// A pair is two requests that were sent at once. In a crowd, others may be served
// between them: then it only shows that a request takes no more than one.
type pair struct {
	second    int        // its number; 0: there is no pair
	remaining [2]float64 // negative: not known yet
	crowded   bool       // others were sent with them
}

const (
	costSamples = 32
	fewSamples  = 4

	// pairInterval is how many requests there are to a pair.
	pairInterval = 8
)

// newCost returns the cost of a limit of which nothing is known.
func newCost() cost { return cost{mean: 1, most: 1} }

// guess is a cost until one is learned, if that many requests were sent.
func (c *cost) guess(mean float64, requests int) {
	if len(c.samples) < fewSamples && requests >= fewest && mean > c.mean {
		c.mean, c.most = mean, mean
	}
}

// wantsPair reports whether the next request is to follow the last one at once.
func (c *cost) wantsPair() bool {
	return (c.mean > 1 || len(c.samples) < fewSamples) && c.takes%pairInterval == 1
}

// take counts a request. near reports whether it follows another one at once.
func (c *cost) take(number int, known float64, near bool) {
	switch {
	case known == 0 && c.wantsPair():
		c.pair = pair{number, [2]float64{-1, -1}, c.near}
	case near && number == c.pair.second+1:
		c.pair.crowded = true
	}
	c.takes++
	c.near = near
}

// hear learns from what remained after a request.
func (c *cost) hear(number int, remaining float64) {
	i := number - c.pair.second + 1
	if c.pair.second == 0 || i < 0 || i > 1 {
		return
	}
	c.pair.remaining[i] = remaining
	r := c.pair.remaining
	if r[0] < 0 || r[1] < 0 {
		return
	}
	// With nothing left, the second may have taken more or been refused; with more left
	// than before, they were served in the other order.
	cost, crowded := r[0]-r[1], c.pair.crowded
	if c.pair = (pair{}); r[1] >= 1 && cost >= 0 && (cost <= 1 || !crowded) {
		c.learn(cost)
	}
}

// learn learns from a sample.
func (c *cost) learn(sample float64) {
	if len(c.samples) < costSamples {
		c.samples = append(c.samples, sample)
	} else {
		c.samples[c.next%costSamples] = sample
		c.next++
	}
	sorted := slices.Sorted(slices.Values(c.samples))
	switch n := len(sorted); {
	case sorted[n/8] <= 1: // few samples are too low, and others are in the rest
		c.mean, c.most = 1, 1
	case n >= fewSamples:
		// For costs that are spread like those of language models, these are the mean
		// and what nine of ten requests do not exceed.
		sum, low := 0.0, sorted[n/4]
		for _, s := range sorted {
			sum += s
		}
		c.mean = min(sum/float64(n), 1.35*low)
		c.most = max(c.mean, min(sorted[n*9/10], 2.65*low))
	}
}
