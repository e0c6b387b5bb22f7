package admission

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/awsretry/internal/pacer"
	"example.com/awsretry/internal/tokens"
	"github.com/google/go-cmp/cmp"
)

const capacity = 500

// newTestTable returns a table whose partitions have buckets of capacity tokens. In
// these tests a Retry-After is what limits the requests of a partition.
func newTestTable(size int, lines bool) *Table {
	return &Table{
		Size: size, Lines: lines,
		NewQuota: func() *tokens.Quota { return tokens.NewQuota(tokens.QuotaConfig{Capacity: capacity}) },
		NewPacer: func() *pacer.Pacer { return nil },
	}
}

// wantPartitions compares the names, the most recently used first.
func wantPartitions(t *testing.T, when string, table *Table, want ...string) {
	t.Helper()
	var got []string
	for _, p := range table.All() {
		got = append(got, p.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// wantState compares the tokens of a partition, and whether it limits.
func wantState(t *testing.T, table *Table, name string, tokens int, limited bool) {
	t.Helper()
	p := table.Find(name)
	if p == nil || p.Quota.Tokens() != tokens || p.limits() != limited {
		t.Errorf("%s: %+v; want %d tokens, limited %v", name, p, tokens, limited)
	}
}

// What a call does to its partition.
func succeed(*Partition)    {}
func drain(p *Partition)    { p.Quota.TakeUpTo(20) }
func throttle(p *Partition) { p.Gate.Close(time.Now(), time.Hour, 0) }

// Requests that all use one partition find it without the lock.
func TestRecentPartitionNeedsNoLock(t *testing.T) {
	for _, hasLines := range []bool{false, true} {
		table := newTestTable(2, hasLines)
		table.Get("other")
		p := table.Get("a")
		table.mu.Lock()
		if table.Get("a") != p {
			t.Error("got another partition")
		}
		table.Release(p)
		table.Release(p)
		table.mu.Unlock()
	}
}

// A partition without failures is replaced before others that were used less
// recently. The new one takes over the retry tokens, not the limit of the send
// rate.
func TestReplacedPartitions(t *testing.T) {
	table := newTestTable(4, true)
	call := func(name string, do func(*Partition)) {
		p := table.Get(name)
		do(p)
		table.Release(p)
	}
	for _, step := range []struct {
		name, use string
		do        func(*Partition)
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
	for _, p := range table.All() {
		p.Quota.PutBack(capacity)
	}
	call("another", succeed)
	wantPartitions(t, "with all tokens back", table, "another", "throttled", "last", "newest")
	for _, name := range []string{"a", "b", "c", "d"} {
		call(name, drain)
	}
	wantPartitions(t, "with failures in all", table, "d", "c", "b", "a")
	wantState(t, table, "d", 480, false) // the bucket of throttled was full
	call("e", drain)
	wantState(t, table, "e", 460, false)
}

// A new name examines only the oldest partitions, whatever their state.
func TestNewPartitionLooksAtFew(t *testing.T) {
	for _, drained := range []int{mostLooks - 1, mostLooks} {
		table := newTestTable(200, true)
		for i := range 200 {
			p := table.Get(fmt.Sprint(i))
			if i < drained {
				drain(p)
			}
			table.Release(p)
		}
		table.Release(table.Get("new"))
		if kept := table.Find("0") != nil; kept != (drained < mostLooks) {
			t.Errorf("%d partitions have failures: the oldest was kept: %v", drained, kept)
		}
	}
}

// A partition is not replaced while calls use it. If calls use all of them,
// others are extra ones, which share their buckets and end with their calls.
func TestPartitionsInUseStay(t *testing.T) {
	table := newTestTable(2, true)
	calls := make(map[string][]*Partition)
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
			p := table.Get(step.use)
			p.Quota.TakeUpTo(1)
			calls[step.use] = append(calls[step.use], p)
		} else {
			table.Release(calls[step.end][0])
			calls[step.end] = calls[step.end][1:]
		}
		var got []string
		for _, p := range table.All() {
			got = append(got, fmt.Sprint(p.Name, p.Quota.Tokens()))
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
	table := newTestTable(2, true)
	table.Get("a")
	b, extra := table.Get("b"), table.Get("extra")
	table.Release(b)
	throttle(extra)
	table.Release(extra)
	wantPartitions(t, "at the end", table, "extra", "a")
	wantState(t, table, "extra", capacity, true)
}

// Calls that use one name at the same time use the same partition, so that no call
// overtakes its line. In the end the table has its maximum size.
func TestPartitionTableConcurrently(t *testing.T) {
	table := newTestTable(2, true)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 2))
			for range 10_000 {
				p := table.Get(fmt.Sprint(r.IntN(4)))
				if r.IntN(8) == 0 {
					drain(p)
					p.Gate.Store(nil)
					if r.IntN(4) == 0 {
						throttle(p)
					}
				}
				table.All()
				if got := table.Find(p.Name); got != p {
					t.Errorf("partition %s was replaced during a call", p.Name)
				}
				table.Release(p)
			}
		})
	}
	all.Wait()
	buckets := make(map[*tokens.Quota]bool)
	for _, p := range table.All() {
		buckets[p.Quota] = true
	}
	if len(table.All()) > 2 || len(buckets) != len(table.All()) {
		t.Errorf("%d partitions and %d buckets in a table for 2", len(table.All()), len(buckets))
	}
}
