package awsretry

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// FuzzQuota compares a Quota with a plain account: whole tokens, and the tenths
// that time adds. Each byte draws or returns tokens, or lets time pass.
func FuzzQuota(f *testing.F) {
	f.Add(500, false, []byte("\x05\x05\x0d\x01\x41\xff\x80"))
	f.Add(5, true, []byte("\x05\xc1\xc2\xff\x05\x45\x85"))
	f.Add(-1, true, []byte("\x05\x45"))
	f.Add(math.MaxInt, false, []byte("\x3f\x7f\x7f"))
	f.Add(30, true, []byte(strings.Repeat("\x1f\xc1\x4a", 30)))
	f.Fuzz(func(t *testing.T, capacity int, refill bool, ops []byte) {
		if refill {
			capacity = min(capacity, 10_000) // with far more, rounding may delay a token
		}
		ops = ops[:min(len(ops), 500)]
		synctest.Test(t, func(t *testing.T) {
			config := QuotaConfig{Capacity: capacity}
			if refill {
				config.RefillPerSecond = 0.1
			}
			q := NewQuota(config)
			limit := capacity
			if capacity == 0 {
				limit = 500
			}
			tokens, tenths := limit, 0
			for i, op := range ops {
				n := int(op & 63)
				switch op >> 6 {
				case 0:
					var want error
					if capacity >= 0 && n > tokens {
						want = ErrQuotaExceeded
					} else {
						tokens -= n
					}
					if err := q.Acquire(t.Context(), n); err != want {
						t.Fatalf("step %d: Acquire(%d) returned %v, want %v", i, n, err, want)
					}
				case 1, 2:
					q.Release(n)
					tokens += min(n, limit-tokens)
				case 3:
					time.Sleep(time.Duration(n) * time.Second)
					if refill {
						tenths += n
						tokens += min(tenths/10, limit-tokens)
						tenths %= 10
					}
				}
				if tokens == limit {
					tenths = 0
				}
				want := tokens
				if capacity < 0 {
					want = math.MaxInt
				}
				if got := q.Tokens(); got != want {
					t.Fatalf("step %d: %d tokens, want %d", i, got, want)
				}
			}
		})
	})
}

func BenchmarkQuotaReleaseFull(b *testing.B) {
	q := NewQuota(QuotaConfig{})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			q.Release(1)
		}
	})
}

func BenchmarkQuotaAcquireRelease(b *testing.B) {
	for _, kind := range quotaKinds {
		b.Run(kind.name, func(b *testing.B) {
			q := NewQuota(kind.config)
			b.ReportAllocs()
			for b.Loop() {
				if err := q.Acquire(b.Context(), 5); err != nil {
					b.Fatal(err)
				}
				q.Release(5)
			}
		})
	}
}
