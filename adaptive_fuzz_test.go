package awsretry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/bucket"
	"example.com/awsretry/internal/waittest"
)

// fault returns which of the limiter's numbers is out of bounds, or "".
func fault(l *RateLimiter) string {
	measured, send, _ := l.Rates()
	tokens, capacity := l.bucket.Tokens(), max(send, l.config.MinCapacity)
	switch {
	case !(measured >= 0 && measured <= math.MaxFloat64):
		return fmt.Sprintf("the measured rate is %v (%+v)", measured, l.config)
	case l.limits() && !(send >= l.config.MinFillRate && send <= math.MaxFloat64):
		return fmt.Sprintf("the send rate is %v (%+v)", send, l.config)
	case !(tokens >= 0 && tokens <= capacity):
		return fmt.Sprintf("%v of %v tokens (%+v)", tokens, capacity, l.config)
	}
	return ""
}

// Whatever the clock and the configuration, the numbers stay in bounds.
func TestLimiterWithOddClocks(t *testing.T) {
	configs := []RateLimitConfig{
		{},
		{MeasureInterval: 1},
		{MeasureInterval: math.MaxInt64},
		{MeasureInterval: 7 * time.Second / 10},
		{ScaleConstant: math.SmallestNonzeroFloat64},
		{ScaleConstant: math.MaxFloat64, Smoothing: 1e-300},
		{MinFillRate: math.MaxFloat64, MinCapacity: math.MaxFloat64, Beta: 1},
		{Beta: math.SmallestNonzeroFloat64, MinFillRate: bucket.MinRate},
		{Pacing: ScaledPacing},
		{Pacing: ScaledPacing, MeasureInterval: 1},
		{Pacing: ScaledPacing, MeasureInterval: math.MaxInt64, Beta: 0.999},
		{Pacing: ScaledPacing, MinFillRate: math.MaxFloat64, MinCapacity: math.MaxFloat64},
		{Pacing: ScaledPacing, Beta: math.SmallestNonzeroFloat64, MinFillRate: bucket.MinRate, Smoothing: 1e-300},
	}
	const end time.Duration = 1 << 62 // of the bucket's clock
	clocks := [][]time.Duration{
		{0, 0, 0, 0},
		{-1, math.MinInt64, math.MinInt64, 0, -1},
		{end, end, end, 0, end},
		{1, end, 1, 2 * time.Second, end - 1},
		{time.Second, 0, time.Second, 0, 3 * time.Second, 3 * time.Second},
	}
	for _, c := range configs {
		for _, clock := range clocks {
			for bits := range 1 << 3 { // which of the outcomes are throttled
				l := NewRateLimiter(c)
				for i, now := range clock {
					l.update(now, now-time.Duration(bits), bits>>(i%3)&1 == 1)
					if fault := fault(l); fault != "" {
						t.Fatalf("update at %v of %v: %s", now, clock, fault)
					}
					l.bucket.Take(1)
					if fault := fault(l); fault != "" {
						t.Fatalf("take after %v of %v: %s", now, clock, fault)
					}
				}
			}
		}
	}
}

// FuzzRateLimiter takes each byte for an outcome, a call, or a time that
// passes, in virtual time.
func FuzzRateLimiter(f *testing.F) {
	for _, scaled := range []bool{false, true} {
		f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07"), false, scaled)
		f.Add([]byte(strings.Repeat("\x01\x02\x02\x02\x83\x00", 20)), false, scaled)
		f.Add([]byte("\x01\xfe\x03\xfd\x01\x0a\x0b\x0c\xff\xff\x00"), true, scaled)
	}
	f.Fuzz(func(t *testing.T, ops []byte, failFast, scaled bool) {
		ops = ops[:min(len(ops), 500)]
		synctest.Test(t, func(t *testing.T) {
			config := RateLimitConfig{FailFast: failFast}
			if scaled {
				config.Pacing = ScaledPacing
			}
			l := NewRateLimiter(config)
			q := waittest.NewQueue()
			started := 0
			for i, op := range ops {
				switch arg := time.Duration(op >> 3); op & 7 {
				case 0, 1:
					l.UpdateSent(time.Now().Add(-arg*100*time.Millisecond), op&1 == 1)
				case 2:
					started++
					q.Join(i, func() error { return l.Wait(t.Context()) })
				case 3:
					started++
					q.Join(i, func() error {
						start := time.Now()
						ctx, cancel := context.WithDeadline(t.Context(), start.Add(arg*100*time.Millisecond))
						defer cancel()
						err := l.Wait(ctx)
						if errors.Is(err, ErrRateLimited) && time.Since(start) != 0 {
							t.Errorf("refused after %v", time.Since(start))
						}
						return err
					})
				case 4:
					time.Sleep(arg * time.Nanosecond)
				case 5:
					time.Sleep(arg * time.Millisecond)
				case 6:
					time.Sleep(arg * 100 * time.Millisecond)
				case 7:
					time.Sleep(arg * arg * arg * time.Second)
				}
				synctest.Wait()
				if _, send, _ := l.Rates(); send == 0 { // no outcome yet
					continue
				}
				if found := fault(l); found != "" {
					t.Fatalf("operation %d: %s", i, found)
				}
			}
			ended := q.Wait()
			wantNoLine(t, l.bucket)
			if len(ended) != started || !waittest.InOrder(ended) {
				t.Fatalf("%d callers ended in this order: %v", started, ended)
			}
			for _, e := range ended {
				if patient := ops[e.ID]&7 == 2; patient && !failFast && e.Err != nil {
					t.Fatalf("caller %d: %v", e.ID, e.Err)
				}
			}
		})
	})
}
