package awsretry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Whatever the clock and the configuration, the numbers stay numbers.
func TestLimiterWithOddClocks(t *testing.T) {
	configs := []RateLimitConfig{
		{},
		{MeasureInterval: 1},
		{MeasureInterval: math.MaxInt64},
		{MeasureInterval: 7 * time.Second / 10},
		{ScaleConstant: math.SmallestNonzeroFloat64},
		{ScaleConstant: math.MaxFloat64, Smoothing: 1e-300},
		{MinFillRate: math.MaxFloat64, MinCapacity: math.MaxFloat64, Beta: 1},
		{Beta: math.SmallestNonzeroFloat64, MinFillRate: minRate},
	}
	clocks := [][]time.Duration{
		{0, 0, 0, 0},
		{-1, math.MinInt64, math.MinInt64, 0, -1},
		{clockEnd, clockEnd, clockEnd, 0, clockEnd},
		{1, clockEnd, 1, 2 * time.Second, clockEnd - 1},
		{time.Second, 0, time.Second, 0, 3 * time.Second, 3 * time.Second},
	}
	for _, c := range configs {
		for _, clock := range clocks {
			for bits := range 1 << 3 {
				l := NewRateLimiter(c)
				for i, now := range clock {
					l.update(now, bits>>(i%3)&1 == 1)
					if fault := fault(l); fault != "" {
						t.Fatalf("update at %v of %v: %s", now, clock, fault)
					}
					l.bucket.tryTake(now, 1)
					if fault := fault(l); fault != "" {
						t.Fatalf("take at %v of %v: %s", now, clock, fault)
					}
				}
			}
		}
	}
}

// fault says which of the limiter's numbers is out of its bounds; "" for none. It returns, so that a lock held around it is
// released before the test fails.
func fault(l *RateLimiter) string {
	b, c := &l.bucket, l.config
	level := b.level(b.now())
	waiting, queued := 0, 0.0
	for w := b.first; w != nil; w = w.next {
		waiting, queued = waiting+1, queued+w.n
	}
	switch {
	case b.waiting != waiting || b.queued != queued:
		return fmt.Sprintf("%d are in line for %v tokens, counted are %d for %v", waiting, queued, b.waiting, b.queued)
	case !(b.tokens >= 0 && b.tokens <= b.capacity && level >= 0 && level <= b.capacity):
		return fmt.Sprintf("%v and now %v of %v tokens (%+v)", b.tokens, level, b.capacity, c)
	case !(b.rate >= c.MinFillRate && b.rate <= math.MaxFloat64):
		return fmt.Sprintf("the send rate is %v (%+v)", b.rate, c)
	case !(b.capacity >= c.MinCapacity && b.capacity <= math.MaxFloat64):
		return fmt.Sprintf("the capacity is %v (%+v)", b.capacity, c)
	case !(l.meter.rate >= 0 && l.meter.rate <= math.MaxFloat64):
		return fmt.Sprintf("the measured rate is %v (%+v)", l.meter.rate, c)
	case (b.first != nil) != (b.timer != nil):
		return "a timer without a line, or a line without a timer"
	}
	return ""
}

// FuzzRateLimiter lets each byte be an answer, a wait, or a pause, in virtual time.
func FuzzRateLimiter(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07"), false)
	f.Add([]byte(strings.Repeat("\x01\x02\x02\x02\x83\x00", 20)), false)
	f.Add([]byte("\x01\xfe\x03\xfd\x01\x0a\x0b\x0c\xff\xff\x00"), true)
	f.Fuzz(func(t *testing.T, ops []byte, failFast bool) {
		if len(ops) > 500 {
			ops = ops[:500]
		}
		synctest.Test(t, func(t *testing.T) {
			l := NewRateLimiter(RateLimitConfig{FailFast: failFast})
			var mu sync.Mutex
			var wg sync.WaitGroup
			var granted []time.Time // when each of those who wait without a deadline was served, in the order of their coming
			started, ended := 0, 0
			for _, op := range ops {
				switch arg := time.Duration(op >> 3); op & 7 {
				case 0, 1:
					l.Update(op&1 == 1)
				case 2, 3:
					patient := op&1 == 0
					ctx, cancel := t.Context(), context.CancelFunc(func() {})
					if !patient {
						ctx, cancel = context.WithTimeout(ctx, arg*100*time.Millisecond)
					}
					started++
					mu.Lock()
					place := len(granted)
					if patient {
						granted = append(granted, time.Time{})
					}
					mu.Unlock()
					wg.Go(func() {
						defer cancel()
						begun := time.Now()
						err := l.Wait(ctx)
						if errors.Is(err, ErrRateLimited) && time.Since(begun) != 0 {
							t.Errorf("refused after %v", time.Since(begun))
						}
						mu.Lock()
						defer mu.Unlock()
						ended++
						if err == nil && patient {
							granted[place] = time.Now()
						}
					})
					synctest.Wait()
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
				l.bucket.mu.Lock()
				found := ""
				if l.bucket.rate > 0 {
					found = fault(l)
				}
				l.bucket.mu.Unlock()
				if found != "" {
					t.Fatal(found)
				}
			}
			wg.Wait()
			wantIdle(t, &l.bucket)
			if ended != started {
				t.Fatalf("%d of %d waits ended", ended, started)
			}
			if !failFast && !slices.IsSortedFunc(granted, time.Time.Compare) || !failFast && slices.ContainsFunc(granted, time.Time.IsZero) {
				t.Fatalf("served at %v", granted)
			}
			if l.bucket.fired > len(ops) {
				t.Fatalf("the timer fired %d times for %d operations", l.bucket.fired, len(ops))
			}
		})
	})
}

func BenchmarkWaitUpdate(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	for _, limited := range []bool{false, true} {
		name := map[bool]string{false: "off", true: "limiting"}[limited]
		l := NewRateLimiter(RateLimitConfig{MinFillRate: 1e15, MinCapacity: 1e9}) // never without a token
		l.Update(limited)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Wait(ctx); err != nil {
					b.Fatal(err)
				}
				l.Update(false)
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := l.Wait(ctx); err != nil {
						b.Error(err)
					}
					l.Update(false)
				}
			})
		})
		b.Run(name+"/wait", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Wait(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
