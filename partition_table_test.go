package awsretry

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

func newTestTable(size int, hasLines bool) *partitionTable {
	return &partitionTable{
		size:       size,
		newQuota:   func() *Quota { return NewQuota(QuotaConfig{}) },
		newLimiter: func() *RateLimiter { return NewRateLimiter(RateLimitConfig{}) },
		hasLines:   hasLines,
	}
}

// Requests that all use one partition find it without the lock.
func TestRecentPartitionNeedsNoLock(t *testing.T) {
	for _, hasLines := range []bool{false, true} {
		table := newTestTable(2, hasLines)
		table.get("other", "")
		p := table.get("a", "")
		table.mu.Lock()
		if table.get("a", "") != p {
			t.Error("got another partition")
		}
		table.release(p)
		table.release(p)
		table.mu.Unlock()
	}
}

// wantBounded fails the test if the table has more buckets than its size, or
// more partitions while no call uses the others.
func wantBounded(t *testing.T, table *partitionTable, inUse bool) {
	t.Helper()
	kept, buckets := 0, make(map[*Quota]bool)
	for _, p := range table.all() {
		buckets[p.quota] = true
		if !p.extra || !inUse {
			kept++
		}
	}
	if kept > table.size || len(buckets) > table.size {
		t.Fatalf("%d partitions and %d buckets in a table for %d", kept, len(buckets), table.size)
	}
}

// Calls begin and end in any order. Their partitions are not replaced meanwhile.
func TestPartitionTableAtRandom(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		table, names := newTestTable(1+r.IntN(6), true), 1+r.IntN(12)
		var calls []*partition
		for range 300 {
			if len(calls) == 0 || r.IntN(2) == 0 {
				calls = append(calls, table.get(fmt.Sprint(r.IntN(names)), ""))
			} else {
				i := r.IntN(len(calls))
				p := calls[i]
				calls = slices.Delete(calls, i, i+1)
				switch r.IntN(3) {
				case 0:
					_ = p.quota.Acquire(t.Context(), 1)
				case 1:
					p.quota.Release(5)
				case 2:
					p.limiter.Update(r.IntN(4) == 0)
				}
				table.release(p)
			}
			wantBounded(t, table, true)
			for _, p := range calls {
				if table.find(p.name) != p {
					t.Fatalf("seed %d: partition %s was replaced during a call", seed, p.name)
				}
			}
		}
		for _, p := range calls {
			table.release(p)
		}
		wantBounded(t, table, false)
	}
}

// Calls that use partitions of one name at the same time use the same one, so
// that nobody overtakes its line.
func TestPartitionTableConcurrently(t *testing.T) {
	table := newTestTable(2, true)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 2))
			for range 10_000 {
				p := table.get(fmt.Sprint(r.IntN(4)), "")
				if r.IntN(8) == 0 {
					_ = p.quota.Acquire(t.Context(), 1)
					p.limiter.Update(r.IntN(4) == 0)
				}
				for _, listed := range table.all() {
					stateOf(listed)
				}
				if got := table.find(p.name); got != p {
					t.Errorf("partition %s was replaced during a call", p.name)
				}
				table.release(p)
			}
		})
	}
	all.Wait()
	wantBounded(t, table, false)
}

// BenchmarkNewPartition is what a new name costs in a table full of partitions
// that are not fresh.
func BenchmarkNewPartition(b *testing.B) {
	for _, size := range []int{16, 1024, 65536} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			table := newTestTable(size, false)
			names := make([]string, 2*size)
			use := func(i, tokens int) {
				p := table.get(names[i%len(names)], "")
				_ = p.quota.Acquire(b.Context(), tokens)
				table.release(p)
			}
			for i := range names {
				names[i] = fmt.Sprint(i)
				use(i, 1)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				use(i, 0)
			}
		})
	}
}
