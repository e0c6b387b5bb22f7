package awsretry

import (
	"container/list"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

func newTestTable(size int, hasLines bool) *partitionTable {
	return &partitionTable{
		size:       size,
		newQuota:   func() *Quota { return NewQuota(QuotaConfig{}) },
		newLimiter: func() *RateLimiter { return NewRateLimiter(RateLimitConfig{}) },
		hasLines:   hasLines,
		byName:     make(map[string]*partition),
	}
}

// use gets and releases partitions, and draws tokens of each.
func use(tb testing.TB, t *partitionTable, draw int, names ...string) {
	for _, name := range names {
		p := t.get(name, "")
		if err := p.quota.Acquire(tb.Context(), draw); err != nil {
			tb.Fatal(err)
		}
		t.release(p)
	}
}

func (t *partitionTable) names() []string {
	var all []string
	for _, p := range t.all() {
		all = append(all, p.name)
	}
	return all
}

// faults returns what is wrong with the table. calls is how many hold each
// partition.
func (t *partitionTable) faults(calls map[string]int) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	listed, quotas := 0, make(map[*Quota]bool)
	lists := map[string]*list.List{"used": &t.used, "notFresh": &t.notFresh, "held": &t.held, "extra": &t.extra}
	for name, l := range lists {
		for e := l.Front(); e != nil; e = e.Next() {
			p := e.Value.(*partition)
			listed++
			quotas[p.quota] = true
			if t.byName[p.name] != p || p.in != l || p.place != e {
				fault("%s is in %s, but not in the map, or does not know its place", p.name, name)
			}
			want := int64(calls[p.name])
			if name == "held" || name == "extra" {
				if want == 0 {
					fault("%s is in %s, and no call holds it", p.name, name)
				}
				want += watched
			}
			if got := p.calls.Load(); got != want {
				fault("%s, in %s, has %#x calls, want %#x", p.name, name, got, want)
			}
		}
	}
	for name := range calls {
		if t.byName[name] == nil {
			fault("%s is held and was dropped", name)
		}
	}
	if listed != len(t.byName) || listed-t.extra.Len() > t.size || len(quotas) > t.size {
		fault("%d in lists, %d of them extra; %d in the map; %d buckets; size %d",
			listed, t.extra.Len(), len(t.byName), len(quotas), t.size)
	}
	return faults
}

func TestReplacedPartitions(t *testing.T) {
	table := newTestTable(4, true)
	use(t, table, 10, "drained")
	use(t, table, 0, "throttled", "full", "recent")
	table.find("throttled").limiter.Update(true)

	steps := []struct {
		name string
		do   func()
		want []string // the most recently used first
	}{
		{"the oldest fresh one", func() { use(t, table, 0, "new") }, []string{"new", "recent", "throttled", "drained"}},
		{"fresh ones until none is left", func() {
			use(t, table, 1, "newer", "newest")
		}, []string{"newest", "newer", "throttled", "drained"}},
		{"then the oldest of all", func() { use(t, table, 0, "last") },
			[]string{"last", "newest", "newer", "throttled"}},
		{"none", func() { use(t, table, 0, "throttled") }, []string{"throttled", "last", "newest", "newer"}},
		{"one whose tokens came back", func() {
			table.find("last").quota.Release(10)
			use(t, table, 0, "another")
		}, []string{"another", "throttled", "newest", "newer"}},
		{"one whose tokens came back while it was not used", func() {
			use(t, table, 1, "another", "throttled")
			table.find("newest").quota.Release(1)
			use(t, table, 1, "one more")
		}, []string{"one more", "throttled", "another", "newer"}},
	}
	for _, step := range steps {
		step.do()
		if got := table.names(); !slices.Equal(got, step.want) {
			t.Fatalf("%s: left are %q, want %q", step.name, got, step.want)
		}
	}
	if faults := table.faults(nil); faults != nil {
		t.Error(faults)
	}
}

func TestReplacementTakesOverTheBucketAlone(t *testing.T) {
	table := newTestTable(1, true)
	use(t, table, 10, "old")
	table.find("old").limiter.Update(true)
	use(t, table, 0, "new")
	p := table.find("new")
	if got := p.quota.Tokens(); got != 490 || p.limits() {
		t.Errorf("the new partition has %d tokens, want 490, and limits: %v", got, p.limits())
	}
}

// A partition that calls hold is not dropped. If all are held, others are extra
// ones, which are dropped when they are released.
func TestHeldPartitionsStay(t *testing.T) {
	table := newTestTable(2, true)
	a, b := table.get("a", ""), table.get("b", "")
	c, d, e := table.get("c", ""), table.get("d", ""), table.get("e", "")
	if faults := table.faults(map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}); faults != nil {
		t.Error(faults)
	}
	if c.quota != a.quota || d.quota != b.quota || e.quota != a.quota {
		t.Error("the extra ones do not share the buckets of the others in turn")
	}
	if table.get("a", "") != a || table.get("d", "") != d {
		t.Error("one that is held was replaced")
	}
	want := func(when string, want ...string) {
		t.Helper()
		if got := table.names(); !slices.Equal(got, want) {
			t.Errorf("%s: there are %q, want %q", when, got, want)
		}
	}
	table.release(a)
	table.release(d)
	want("while calls hold all", "d", "e", "c", "a", "b")
	table.release(d)
	want("with one extra released", "e", "c", "a", "b")
	c.limiter.Update(true)
	table.release(c)
	want("with two extra released", "e", "a", "b")
	table.release(a)
	want("with a released", "e", "b", "a")
	table.release(e)
	want("with all extra released", "b", "a")
	table.release(b)
	if faults := table.faults(nil); faults != nil {
		t.Error(faults)
	}
}

// An extra partition that limits its requests replaces another one when it is
// released, so that it limits the next requests too.
func TestExtraPartitionThatLimits(t *testing.T) {
	for _, test := range []struct {
		name  string
		limit func(*partition)
	}{
		{"by its limiter", func(p *partition) { p.limiter.Update(true) }},
		{"by its gate", func(p *partition) { p.gate.Close(time.Now(), time.Hour, 0) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			table := newTestTable(2, true)
			a, b, extra := table.get("a", ""), table.get("b", ""), table.get("extra", "host")
			test.limit(extra)
			table.release(b)
			table.release(extra)
			if got, want := table.names(), []string{"a", "extra"}; !slices.Equal(got, want) {
				t.Fatalf("there are %q, want %q", got, want)
			}
			if p := table.find("extra"); !p.limits() || p.quota != b.quota || p.limiter != extra.limiter ||
				p.host != "host" {
				t.Errorf("the partition is %+v, which limits: %v", p, p.limits())
			}
			table.release(a)
			if faults := table.faults(nil); faults != nil {
				t.Error(faults)
			}
		})
	}
}

// Requests that all use one partition find it without the lock.
func TestRecentPartitionNeedsNoLock(t *testing.T) {
	for _, hasLines := range []bool{false, true} {
		table := newTestTable(2, hasLines)
		table.get("other", "")
		p := table.get("a", "")
		if table.recent.Load() != p {
			t.Fatal("the partition that was used last is not the recent one")
		}
		table.mu.Lock()
		if table.get("a", "") != p {
			t.Error("got another partition")
		}
		table.release(p)
		table.release(p)
		table.mu.Unlock()
	}
}

// Calls begin and end in any order, and hold their partitions meanwhile.
func TestPartitionTableAtRandom(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		size, names := 1+r.IntN(6), 1+r.IntN(12)
		table := newTestTable(size, true)
		held := make(map[string]int)
		var calls []*partition
		for range 300 {
			if len(calls) > 0 && r.IntN(20) < 10 {
				i := r.IntN(len(calls))
				p := calls[i]
				calls = slices.Delete(calls, i, i+1)
				if held[p.name]--; held[p.name] == 0 {
					delete(held, p.name)
				}
				switch r.IntN(3) {
				case 0:
					_ = p.quota.Acquire(t.Context(), 1)
				case 1:
					p.quota.Release(5)
				case 2:
					p.limiter.Update(r.IntN(4) == 0)
				}
				table.release(p)
			} else {
				p := table.get(fmt.Sprint(r.IntN(names)), "")
				calls = append(calls, p)
				held[p.name]++
			}
			if faults := table.faults(held); faults != nil {
				t.Fatalf("seed %d: %v", seed, faults)
			}
		}
		for _, p := range calls {
			table.release(p)
		}
		if faults := table.faults(nil); faults != nil {
			t.Fatalf("seed %d, in the end: %v", seed, faults)
		}
	}
}

// Calls that hold partitions of one name at the same time hold the same one, so
// that nobody overtakes its line.
func TestPartitionTableConcurrently(t *testing.T) {
	table := newTestTable(3, true)
	var mu sync.Mutex
	held := make(map[string][]*partition)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 2))
			for range 3000 {
				p := table.get(fmt.Sprint(r.IntN(7)), "")
				mu.Lock()
				for _, other := range held[p.name] {
					if other != p {
						t.Errorf("two partitions %q are held", p.name)
					}
				}
				held[p.name] = append(held[p.name], p)
				mu.Unlock()
				if r.IntN(8) == 0 {
					_ = p.quota.Acquire(t.Context(), 1)
				}
				mu.Lock()
				i := slices.Index(held[p.name], p)
				held[p.name] = slices.Delete(held[p.name], i, i+1)
				mu.Unlock()
				table.release(p)
			}
		})
	}
	wg.Wait()
	if faults := table.faults(nil); faults != nil {
		t.Error(faults)
	}
}

// A new partition costs the same, however many there are and whatever state
// they are in.
func TestFloodOfNewNames(t *testing.T) {
	for _, hold := range []bool{false, true} {
		for _, drawn := range []int{0, 1} {
			t.Run(fmt.Sprintf("hold=%v,drawn=%v", hold, drawn), func(t *testing.T) {
				table := newTestTable(1024, true)
				const requests = 20_000
				var held []*partition
				for i := range requests {
					p := table.get(fmt.Sprint(i), "")
					_ = p.quota.Acquire(t.Context(), drawn)
					if hold {
						held = append(held, p)
					} else {
						table.release(p)
					}
				}
				if most := 12 * requests; table.looks > most {
					t.Errorf("looked at %d partitions for %d requests", table.looks, requests)
				}
				for _, p := range held {
					table.release(p)
				}
				if most := 12 * 2 * requests; table.looks > most {
					t.Errorf("in the end looked at %d partitions for %d requests", table.looks, requests)
				}
				if faults := table.faults(nil); faults != nil {
					t.Error(faults)
				}
			})
		}
	}
}

func TestBoundedName(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	if p := newTestTable(1, false).get(long, long); len(p.name)+len(p.host) > maxPartitionName {
		t.Errorf("a partition keeps a name of %d bytes and a host of %d", len(p.name), len(p.host))
	}
	for _, name := range []string{"", "a", long[:255], strings.Repeat("ä", 127)} {
		if got := boundedName(name); got != name {
			t.Errorf("%q became %q", name, got)
		}
	}
	seen := make(map[string]string)
	umlauts, worlds := strings.Repeat("ä", 128), strings.Repeat("世", 200)
	for _, name := range []string{long[:256], long[:257], long, "y" + long, long + "y",
		umlauts, "x" + umlauts, worlds, "x" + worlds, "xx" + worlds, strings.Repeat("\x80", 1000)} {
		got := boundedName(name)
		if other, ok := seen[got]; ok {
			t.Errorf("%.20q… and %.20q… are one", name, other)
		}
		seen[got] = name
		if len(got) > maxPartitionName || boundedName(got) != got || utf8.ValidString(name) && !utf8.ValidString(got) {
			t.Errorf("%.20q… became %q", name, got)
		}
		if prefix := got[:len(got)-65]; !strings.HasPrefix(name, prefix) ||
			utf8.ValidString(name) && len(prefix) < 187 {
			t.Errorf("%.20q… became %q", name, got)
		}
	}
}

// BenchmarkNewPartition is what a new name costs in a table full of partitions
// that are not fresh.
func BenchmarkNewPartition(b *testing.B) {
	for _, size := range []int{16, 1024, 65536} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			table := newTestTable(size, false)
			names := make([]string, 2*size)
			for i := range names {
				names[i] = fmt.Sprint(i)
			}
			use(b, table, 1, names...)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				p := table.get(names[i%len(names)], "")
				table.release(p)
			}
		})
	}
}
