package partitions

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A bucket is the value of the entries in these tests: tokens that another entry
// can take over, and whether the entry limits its requests.
type bucket struct {
	tokens  *atomic.Int64
	limited atomic.Bool
}

const capacity = 500

type kind struct{}

func (kind) New(e *Entry[bucket]) {
	e.Value.tokens = new(atomic.Int64)
	e.Value.tokens.Store(capacity)
}

func (kind) Replace(e, old, extra *Entry[bucket]) {
	e.Value.tokens = old.Value.tokens
	if extra != nil {
		e.Value.limited.Store(extra.Value.limited.Load())
	}
}

func (kind) Borrow(e, lender *Entry[bucket]) { e.Value.tokens = lender.Value.tokens }
func (kind) Dropped(*Entry[bucket])          {}
func (k kind) Fresh(e *Entry[bucket]) bool   { return e.Value.tokens.Load() == capacity && !k.Limits(e) }
func (kind) Limits(e *Entry[bucket]) bool    { return e.Value.limited.Load() }
func (kind) Join(*Entry[bucket])             {}
func (kind) Joins() bool                     { return false }

func newTestTable(size int, lines bool) *Table[bucket] {
	return &Table[bucket]{Size: size, Kind: kind{}, Lines: lines}
}

// wantPartitions compares the names, the most recently used first.
func wantPartitions(t *testing.T, when string, table *Table[bucket], want ...string) {
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
func wantState(t *testing.T, table *Table[bucket], name string, tokens int, limited bool) {
	t.Helper()
	p := table.Find(name)
	if p == nil || int(p.Value.tokens.Load()) != tokens || p.Value.limited.Load() != limited {
		t.Errorf("%s: %+v; want %d tokens, limited %v", name, p, tokens, limited)
	}
}

// What a call does to its entry.
func succeed(*Entry[bucket])    {}
func drain(p *Entry[bucket])    { p.Value.tokens.Add(-20) }
func throttle(p *Entry[bucket]) { p.Value.limited.Store(true) }

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
	call := func(name string, do func(*Entry[bucket])) {
		p := table.Get(name)
		do(p)
		table.Release(p)
	}
	for _, step := range []struct {
		name, use string
		do        func(*Entry[bucket])
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
	for _, e := range table.All() {
		e.Value.tokens.Store(capacity)
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
	calls := make(map[string][]*Entry[bucket])
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
			p.Value.tokens.Add(-1)
			calls[step.use] = append(calls[step.use], p)
		} else {
			table.Release(calls[step.end][0])
			calls[step.end] = calls[step.end][1:]
		}
		var got []string
		for _, p := range table.All() {
			got = append(got, fmt.Sprint(p.Name, p.Value.tokens.Load()))
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
					p.Value.limited.Store(r.IntN(4) == 0)
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
	buckets := make(map[*atomic.Int64]bool)
	for _, p := range table.All() {
		buckets[p.Value.tokens] = true
	}
	if len(table.All()) > 2 || len(buckets) != len(table.All()) {
		t.Errorf("%d partitions and %d buckets in a table for 2", len(table.All()), len(buckets))
	}
}
