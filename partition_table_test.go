package awsretry

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func newTestTable(size int, hasLines bool) *partitionTable {
	return &partitionTable{
		size:       size,
		newQuota:   func() *Quota { return NewQuota(QuotaConfig{RefillPerSecond: 1e-3}) },
		newLimiter: func() *RateLimiter { return NewRateLimiter(RateLimitConfig{}) },
		hasLines:   hasLines,
	}
}

// wantPartitions compares the names, the last used one first.
func wantPartitions(t *testing.T, when string, table *partitionTable, want ...string) {
	t.Helper()
	var got []string
	for _, p := range table.all() {
		got = append(got, p.name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// wantState compares the tokens of a partition, and whether it limits.
func wantState(t *testing.T, table *partitionTable, name string, tokens int, limited bool) {
	t.Helper()
	p := table.find(name)
	if p == nil || p.quota.Tokens() != tokens || p.limits() != limited {
		t.Errorf("%s: %+v; want %d tokens, limited %v", name, p, tokens, limited)
	}
}

// What a call does to its partition.
func succeed(*partition)    {}
func drain(p *partition)    { _ = p.quota.Acquire(context.Background(), 20) }
func throttle(p *partition) { p.limiter.Update(true) }

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

// A partition without failures is replaced before others that were used longer
// ago. The new one takes over the retry tokens, not the limit of the send rate.
func TestReplacedPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newTestTable(4, true)
		call := func(name string, do func(*partition)) {
			p := table.get(name, "")
			do(p)
			table.release(p)
		}
		for _, step := range []struct {
			name, use string
			do        func(*partition)
			want      []string
		}{
			{"one", "drained", drain, []string{"drained"}},
			{"two", "throttled", throttle, []string{"throttled", "drained"}},
			{"three", "full", succeed, []string{"full", "throttled", "drained"}},
			{"four", "recent", succeed, []string{"recent", "full", "throttled", "drained"}},
			{"the oldest one without failures", "new", succeed, []string{"new", "recent", "throttled", "drained"}},
			{"the next", "newer", drain, []string{"newer", "new", "throttled", "drained"}},
			{"the last", "newest", drain, []string{"newest", "newer", "throttled", "drained"}},
			{"then the oldest of all", "last", succeed, []string{"last", "newest", "newer", "throttled"}},
			{"none", "throttled", succeed, []string{"throttled", "last", "newest", "newer"}},
		} {
			call(step.use, step.do)
			wantPartitions(t, step.name, table, step.want...)
		}
		wantState(t, table, "throttled", 500, true)
		wantState(t, table, "last", 480, false)
		time.Sleep(20_000 * time.Second)
		call("another", succeed)
		wantPartitions(t, "with all tokens back", table, "another", "throttled", "last", "newest")
		for _, name := range []string{"a", "b", "c", "d"} {
			call(name, drain)
		}
		wantPartitions(t, "with failures in all", table, "d", "c", "b", "a")
		wantState(t, table, "d", 480, false) // the bucket of throttled was full
		call("e", drain)
		wantState(t, table, "e", 460, false)
	})
}

// A new name looks at the oldest partitions alone, whatever state they are in.
func TestNewPartitionLooksAtFew(t *testing.T) {
	for _, drained := range []int{mostLooks - 1, mostLooks} {
		table := newTestTable(200, true)
		for i := range 200 {
			p := table.get(fmt.Sprint(i), "")
			if i < drained {
				drain(p)
			}
			table.release(p)
		}
		table.release(table.get("new", ""))
		if kept := table.find("0") != nil; kept != (drained < mostLooks) {
			t.Errorf("%d partitions have failures: the oldest was kept: %v", drained, kept)
		}
	}
}

// A partition is not replaced while calls use it. If calls use all of them,
// others are extra ones, which share their buckets and end with their calls.
func TestPartitionsInUseStay(t *testing.T) {
	table := newTestTable(2, true)
	calls := make(map[string][]*partition)
	for _, step := range []struct {
		use, end string
		want     string // names in the order of the alphabet, with their tokens
	}{
		{use: "a", want: "a499"},
		{use: "b", want: "a499 b499"},
		{use: "c", want: "a498 b499 c498"},
		{use: "d", want: "a498 b498 c498 d498"},
		{use: "e", want: "a497 b498 c497 d498 e497"},
		{use: "a", want: "a496 b498 c496 d498 e496"},
		{use: "d", want: "a496 b497 c496 d497 e496"},
		{end: "a", want: "a496 b497 c496 d497 e496"},
		{end: "d", want: "a496 b497 c496 d497 e496"},
		{end: "d", want: "a496 b497 c496 e496"},
		{end: "c", want: "a496 b497 e496"},
		{end: "a", want: "a496 b497 e496"},
		{use: "f", want: "b497 e495 f495"}, // takes over the bucket of a
		{end: "e", want: "b497 f495"},
		{end: "b", want: "b497 f495"},
		{use: "g", want: "f495 g496"},
	} {
		if step.use != "" {
			p := table.get(step.use, "")
			wantError(t, p.quota.Acquire(t.Context(), 1), "")
			calls[step.use] = append(calls[step.use], p)
		} else {
			table.release(calls[step.end][0])
			calls[step.end] = calls[step.end][1:]
		}
		var got []string
		for _, p := range table.all() {
			got = append(got, fmt.Sprint(p.name, p.quota.Tokens()))
		}
		slices.Sort(got)
		if got := strings.Join(got, " "); got != step.want {
			t.Fatalf("%+v: there are %s", step, got)
		}
	}
}

// An extra partition that limits its requests replaces another one when it ends,
// so that it limits the next requests too.
func TestExtraPartitionThatLimits(t *testing.T) {
	closeGate := func(p *partition) { p.gate.Close(time.Now(), 30*time.Second, 0) }
	for name, limit := range map[string]func(*partition){"throttled": throttle, "Retry-After": closeGate} {
		t.Run(name, func(t *testing.T) {
			table := newTestTable(2, true)
			table.get("a", "")
			b, extra := table.get("b", ""), table.get("extra", "")
			table.release(b)
			limit(extra)
			table.release(extra)
			wantPartitions(t, "at the end", table, "extra", "a")
			wantState(t, table, "extra", 500, true)
		})
	}
}

// Calls that use partitions of one name at the same time use the same one, so
// that nobody overtakes its line. In the end the table is as large as it may be.
func TestPartitionTableConcurrently(t *testing.T) {
	table := newTestTable(2, true)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 2))
			for range 10_000 {
				p := table.get(fmt.Sprint(r.IntN(4)), "")
				if r.IntN(8) == 0 {
					drain(p)
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
	buckets := make(map[*Quota]bool)
	for _, p := range table.all() {
		buckets[p.quota] = true
	}
	if len(table.all()) > 2 || len(buckets) != len(table.all()) {
		t.Errorf("%d partitions and %d buckets in a table for 2", len(table.all()), len(buckets))
	}
}
