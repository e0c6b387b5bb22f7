package gate_test

import (
	"context"
	"math"
	"testing"
	"time"

	"example.com/awsretry/internal/gate"
)

// longest spreads by as much as possible.
type longest struct{}

func (longest) Spread(delay, spread time.Duration) time.Duration { return delay + spread }

func TestSpread(t *testing.T) {
	planned := context.WithValue(t.Context(), gate.SpreaderKey{}, longest{})
	for _, tt := range []struct {
		name          string
		ctx           context.Context
		delay, spread time.Duration
		least, most   time.Duration
	}{
		{"none", t.Context(), time.Second, 0, time.Second, time.Second},
		{"random", t.Context(), time.Second, time.Minute, time.Second, time.Second + time.Minute},
		{"too long", t.Context(), math.MaxInt64, 1 << 62, math.MaxInt64 - 1<<58, math.MaxInt64},
		{"decided", planned, time.Second, time.Minute, time.Second + time.Minute, time.Second + time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := gate.Spread(tt.ctx, tt.delay, tt.spread); got < tt.least || got > tt.most {
				t.Errorf("got %v, want %v to %v", got, tt.least, tt.most)
			}
		})
	}
	var g gate.Gate
	g.Close(time.Now(), time.Hour, time.Minute)
	if wait, _ := g.Left(planned, time.Now()); wait <= time.Hour {
		t.Errorf("left is %v, want more than an hour: the context's Spreader decides", wait)
	}
}
