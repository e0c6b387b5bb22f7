package remaining

import "testing"

// A pair of requests shows the cost of the second one, if they are served in order.
func TestCost(t *testing.T) {
	c := cost{mean: 1}
	c.guess(7, fewest-1)
	if c.mean != 1 {
		t.Errorf("a guess of few requests: %v", c.mean)
	}
	c.guess(7, fewest)
	if c.mean != 7 {
		t.Errorf("a guess: %v", c.mean)
	}
	pair := func(number int, cost float64) {
		for c.takes%pairInterval != 0 {
			c.take(1, 0)
		}
		c.take(number, 0)
		c.take(number+1, 0)
		c.hear(number+1, 100-cost) // responses in either order
		c.hear(number, 100)
	}
	for i := range 2 * costSamples {
		pair(10*i+11, []float64{5, -5, 10}[i%3])
	}
	if len(c.samples) != costSamples || c.mean < 5 || c.mean > 10 {
		t.Errorf("%d samples: %v", len(c.samples), c.mean)
	}
	for i := range costSamples {
		pair(10*i+5001, 100)
	}
	if c.mean > 10 {
		t.Errorf("with nothing left after the second, nothing is learned: %v", c.mean)
	}
	c.guess(100, fewest)
	if pair(10001, 1); c.mean == 1 {
		t.Error("one of 32 took 1, as if others came between")
	}
	for i := range costSamples / 8 {
		pair(10*i+10011, 1)
	}
	if c.mean != 1 || c.wantsPair() {
		t.Errorf("an eighth took 1: %v", c.mean)
	}
}

// A pair is measured although others follow before its responses come, unless one of
// it has none.
func TestPairInFlight(t *testing.T) {
	c := cost{mean: 1}
	for number := range 3 * pairInterval {
		c.take(2*number+1, 0) // those between are for another limit
	}
	if want := [2]int{1, 3}; c.pair.numbers != want {
		t.Fatalf("the pair is %v, want %v", c.pair.numbers, want)
	}
	c.hear(3, 93)
	c.hear(1, 96)
	if len(c.samples) != 1 || c.samples[0] != 3 {
		t.Fatalf("samples %v, want 3", c.samples)
	}
	for c.pair.numbers[1] == 0 {
		c.take(c.latest+2, 0)
	}
	if c.settle(c.pair.numbers[0]); c.pair.numbers[1] != 0 {
		t.Error("a pair waits for a response that does not come")
	}
}

// Values that are all multiples of a number may be rounded to it.
func TestRoundedValues(t *testing.T) {
	var c cost
	for _, value := range []float64{4000, 5000, 4000, 7000} {
		c.see(value)
	}
	if got := c.rounding(); got != 999 {
		t.Errorf("rounded by %v, want 999", got)
	}
	if c.mean = 2000; c.rounding() != 0 {
		t.Error("rounded, if each request costs two of what divides all values")
	}
	c.mean = 480
	if c.see(6500); c.rounding() != 499 {
		t.Errorf("rounded by %v, want 499", c.rounding())
	}
	if c.see(.5); c.rounding() != 0 {
		t.Errorf("a fraction is rounded by %v", c.rounding())
	}
}
