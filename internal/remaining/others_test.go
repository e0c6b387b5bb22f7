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

// What others would use is saved only as far as their requests in flight may need it.
func TestSpaced(t *testing.T) {
	for _, tt := range []struct {
		others, own, peak, want float64
		slides                  bool
	}{
		{others: 10, own: 500, peak: 20, want: 300}, // about none
		{others: 100, own: 500, peak: 20, want: 32},
		{others: 100, own: 500, peak: 1, want: 8}, // for one request of theirs
		{others: 500, own: 250, peak: 10, want: 160},
		{others: 500, own: 250, peak: 30, want: 300},
		{others: 500, peak: 10, want: 300}, // it is not known how many
		{others: 100, own: 500, peak: 20, slides: true, want: 300},
	} {
		m := Limit{Quota: 900, start: 900, remaining: 900 - tt.others - tt.own, cost: cost{mean: 1}, refused: tt.slides}
		m.own.Add(int(tt.own), 0)
		m.Window.Ends, m.peaks[1] = true, tt.peak
		if got := m.spaced(); got != tt.want {
			t.Errorf("%+v: %v units are spaced", tt, got)
		}
	}
}
