package announced

import (
	"slices"
	"time"
)

// A cost is what a request takes of a limit, learned from how much Remaining
// falls from one request to the next. What others take in between is in that
// too, so the samples are of requests that followed each other closely.
type cost struct {
	samples []sample
	mean    float64
	most    float64 // what most requests do not exceed
}

type sample struct {
	cost float64
	gap  time.Duration // between the requests
	at   time.Duration
}

const (
	costSamples = 32
	sampleAge   = 10 * time.Minute // older ones are replaced first
)

// newCost returns the cost of a limit of which nothing is known.
func newCost() cost { return cost{mean: 1, most: 1} }

// guess is a cost until one is learned.
func (c *cost) guess(mean float64) {
	if len(c.samples) == 0 {
		c.mean, c.most = mean, mean
	}
}

// learn adds a sample. exact says that nothing came back in between, so that no
// sample is too low.
func (c *cost) learn(s sample, exact bool) {
	if len(c.samples) < costSamples {
		c.samples = append(c.samples, s)
	} else {
		worst := 0
		for i := range c.samples {
			if c.samples[i].worse(c.samples[worst], s.at) {
				worst = i
			}
		}
		if s.worse(c.samples[worst], s.at) {
			return
		}
		c.samples[worst] = s
	}
	var sorted [costSamples]float64
	n, sum := 0, 0.0
	for i, s := range c.samples {
		sorted[i] = s.cost
		sum += s.cost
		n++
	}
	slices.Sort(sorted[:n])
	fewest := n / 10
	if exact {
		fewest = 0
	}
	if sorted[fewest] <= 1 { // a request costs one, and the rest is what others take
		c.mean, c.most = 1, 1
		return
	}
	// For costs that are spread like those of language models, these are the mean
	// and what nine of ten requests do not exceed.
	low := sorted[n/4]
	c.mean = min(sum/float64(n), 1.35*low)
	c.most = max(c.mean, min(sorted[n*9/10], 2.65*low))
}

// worse reports whether s says less than t at now.
func (s sample) worse(t sample, now time.Duration) bool {
	if old := now-s.at > sampleAge; old != (now-t.at > sampleAge) {
		return old
	}
	if s.gap != t.gap {
		return s.gap > t.gap
	}
	return s.at < t.at
}
