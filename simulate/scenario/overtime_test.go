package scenario

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const changing = `
duration: 40s
clients: {count: 1, rate: 10}
service:
  capacity: 100
  queue: 10
  latency:
    distribution: table
    table: [{share: 0, within: 5ms}, {share: 0.5, within: 20ms}, {share: 1, within: 2s}]
  throttle: {share: 0.1}
over_time: {every: 10s, rate: [10, 0, 20, 10], throttled: [0, 0.5, 0, 1], errors: [0, 0, 0, 1], latency: [1, 2, 1, 1]}
`

func TestParseOverTime(t *testing.T) {
	s, err := Parse([]byte(changing))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float64{0, 0.5, 0, 1}, s.OverTime.Throttled); diff != "" {
		t.Error(diff)
	}
	// Half of the requests takes 12.5 ms on average, the others 1,010 ms.
	if got, want := s.Service.Latency.Mean(), 511.25e6; math.Abs(got-want) > 1 {
		t.Errorf("the mean latency is %v ns, want %v", got, want)
	}
}
