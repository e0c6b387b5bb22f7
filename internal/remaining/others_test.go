package remaining

import "testing"

// Half of the rounding may be missing of a bucket, and of what others use, too.
func TestHidden(t *testing.T) {
	rounded := cost{mean: 1, grain: 10, values: fewSamples, most: 60}
	for _, tt := range []struct {
		limit Limit
		want  float64
	}{
		{Limit{cost: rounded, remaining: 60}, 0},
		{Limit{cost: rounded, remaining: 58}, 2},
		{Limit{cost: rounded, remaining: 30}, 4.5},
		{Limit{cost: rounded, remaining: 60, refills: true}, 4.5},
		{Limit{cost: cost{mean: 1}, remaining: 30}, 0},
	} {
		tt.limit.Quota = 60
		if got := tt.limit.hidden(); got != tt.want {
			t.Errorf("%v of 60 remain: %v may be missing, want %v", tt.limit.remaining, got, tt.want)
		}
	}
}
