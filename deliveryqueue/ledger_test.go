package deliveryqueue

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"example.com/awsretry/internal/worlds"
)

// A party is a number of endpoints of one kind in a simulation.
type party struct {
	name     string
	n        int
	takes    func(*rand.Rand, time.Duration) time.Duration // an attempt, at a time since the beginning
	interval time.Duration                                 // between two deliveries to one of them; 0: deliveries always wait
	first    int                                           // deliveries that wait at the beginning
	known    bool                                          // to be quick
}

type takes = func(*rand.Rand, time.Duration) time.Duration

func always(d time.Duration) takes { return func(*rand.Rand, time.Duration) time.Duration { return d } }

func between(least, most time.Duration) takes {
	return func(r *rand.Rand, _ time.Duration) time.Duration { return least + rand.N(most-least) }
}

// oneIn is quick except for one attempt in n.
func oneIn(n int, d time.Duration) takes {
	return func(r *rand.Rand, _ time.Duration) time.Duration {
		if r.IntN(n) == 0 {
			return d
		}
		return 20 * time.Millisecond
	}
}

// nowAndThen is quick for a time, then slow, and so on.
func nowAndThen(period, d time.Duration) takes {
	return func(_ *rand.Rand, since time.Duration) time.Duration {
		if since/period%2 == 1 {
			return d
		}
		return 20 * time.Millisecond
	}
}

// A receiver is an endpoint in a simulation.
type receiver struct {
	name string
	party
	waiting []time.Time     // since when a delivery waits
	late    []time.Duration // from then to the attempt
	tries   int
}

type event struct {
	at time.Time
	do func()
}

type agenda []event

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a agenda) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)        { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// A simulation has processes whose ledgers divide their workers among receivers,
// in virtual time.
type simulation struct {
	r          *rand.Rand
	begin, now time.Time
	next       map[*ledger]time.Time // when a worker was last said to be free
	events     agenda
	ledgers    []*ledger
	receivers  []*receiver
	jobs       int64
	most       int // attempts in progress of one process
}

// simulate returns the receivers of each party after the span.
func simulate(r *rand.Rand, config Config, processes int, span time.Duration, parties ...party) (*simulation, [][]*receiver) {
	s := &simulation{r: r, begin: time.Unix(1e9, 0), now: time.Unix(1e9, 0), next: make(map[*ledger]time.Time)}
	for range processes {
		s.ledgers = append(s.ledgers, newLedger(config.withDefaults()))
	}
	groups := make([][]*receiver, len(parties))
	for k, p := range parties {
		for i := range p.n {
			e := &receiver{name: fmt.Sprintf("%d-%d", k, i), party: p}
			e.waiting = slices.Repeat([]time.Time{s.now}, p.first)
			s.receivers, groups[k] = append(s.receivers, e), append(groups[k], e)
			for _, l := range s.ledgers {
				if p.known {
					l.accounts[e.name] = new(account)
				}
			}
			if p.interval > 0 {
				s.after(time.Duration(r.Int64N(int64(p.interval))), func() { s.arrive(e) })
			}
		}
	}
	s.after(span, func() {})
	for end := s.now.Add(span); s.now.Before(end); {
		for _, k := range r.Perm(len(s.ledgers)) {
			for s.look(s.ledgers[k]) {
			}
		}
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
	}
	return s, groups
}

func (s *simulation) after(d time.Duration, do func()) {
	heap.Push(&s.events, event{s.now.Add(d), do})
}

func (s *simulation) arrive(e *receiver) {
	e.waiting = append(e.waiting, s.now)
	s.after(e.interval/2+time.Duration(s.r.Int64N(int64(e.interval))), func() { s.arrive(e) })
}

// look runs when deliveries may be due. It reports whether some were taken.
func (s *simulation) look(l *ledger) bool {
	var due []candidate
	byName := make(map[string]*receiver)
	for _, e := range s.receivers {
		if c := (candidate{Endpoint: e.name, turns: math.MaxInt, waited: time.Hour}); len(e.waiting) > 0 || e.interval == 0 {
			if len(e.waiting) > 0 {
				c.waited = s.now.Sub(e.waiting[0])
			}
			due = append(due, c)
			byName[e.name] = e
		}
	}
	chosen, next := l.allot(due, s.now)
	for _, c := range chosen {
		e := byName[c.Endpoint]
		for n := c.N; n > 0 && (e.interval == 0 || len(e.waiting) > 0); n-- {
			s.attempt(l, e)
		}
	}
	s.most = max(s.most, len(l.attempts))
	if !next.IsZero() && !next.Equal(s.next[l]) {
		s.next[l] = next
		s.after(next.Sub(s.now), func() {})
	}
	return len(chosen) > 0
}

func (s *simulation) attempt(l *ledger, e *receiver) {
	if e.interval > 0 {
		e.late = append(e.late, s.now.Sub(e.waiting[0]))
		e.waiting = e.waiting[1:]
	}
	e.tries++
	s.jobs++
	job, took := s.jobs, e.takes(s.r, s.now.Sub(s.begin))
	l.enter(job, e.name, health{}, s.now)
	s.after(took, func() {
		l.responded(job, took, false, s.now)
		l.leave(job, s.now)
	})
}

// lateness returns how late the deliveries were, the latest last. Those that wait
// are the latest.
func (s *simulation) lateness(all []*receiver) (late []time.Duration) {
	for _, e := range all {
		late = append(late, e.late...)
		for _, since := range e.waiting {
			late = append(late, s.now.Sub(since))
		}
	}
	slices.Sort(late)
	return late
}

func p99(late []time.Duration) time.Duration { return late[(len(late)-1)*99/100] }

// Deliveries to endpoints that respond quickly do not wait for others, whatever
// these do: beside slow ones with a backlog, with ten workers and with more, 99 in
// 100 begin within .16 s, and each of the slow ones is attempted.
func TestSlowBesideQuick(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for long with the race detector; make test runs it without")
	}
	t.Parallel()
	const hang = defaultAttemptTimeout
	for name, how := range map[string]takes{
		"0.5 s": always(500 * time.Millisecond), "2 s": always(2 * time.Second), "4.9 s": always(4900 * time.Millisecond),
		"hang": always(hang), "hang in one of ten": oneIn(10, hang), "0.3 to 8 s": between(300*time.Millisecond, 8*time.Second),
	} {
		for _, config := range []Config{{Workers: 10}, {}} {
			for _, n := range []int{1, 4, 8, 10} {
				s, parties := simulate(rand.New(rand.NewPCG(1, 2)), config, 1, time.Minute,
					party{name: name, n: n, takes: how},
					party{name: "quick", n: 10, takes: always(10 * time.Millisecond), interval: time.Second})
				if late := p99(s.lateness(parties[1])); late > 160*time.Millisecond {
					t.Errorf("%d workers, %d take %s: p99 of the others is %v late", config.Workers, n, name, late)
				}
				var tries []int
				for _, e := range parties[0] {
					tries = append(tries, e.tries)
				}
				if least, most := slices.Min(tries), slices.Max(tries); least*4 < most {
					t.Errorf("%d workers, %d take %s: %v attempts", config.Workers, n, name, tries)
				}
			}
		}
	}
}

// A steady endpoint does not wait for many that have a few deliveries each.
func TestManyBesideOne(t *testing.T) {
	t.Parallel()
	const quick = 20 * time.Millisecond
	s, parties := simulate(rand.New(rand.NewPCG(1, 2)), Config{Workers: 2}, 1, 10*time.Second,
		party{name: "many", n: 500, takes: always(quick), first: 3, interval: 24 * time.Hour},
		party{name: "steady", n: 1, takes: always(quick), interval: 100 * time.Millisecond})
	if late := s.lateness(parties[1]); len(late) < 80 || late[len(late)-1] > 5*quick {
		t.Errorf("of %d deliveries, the last one is %v late", len(late), late[len(late)-1])
	}
	tried := 0
	for _, e := range parties[0] {
		tried += min(e.tries, 1)
	}
	if tried < 450 {
		t.Errorf("%d attempts are for %d endpoints", s.jobs, tried)
	}
}

// Whatever the endpoints do that are slow, hang or have a backlog, a delivery to an
// endpoint that responds quickly and has no backlog waits for workers that become
// free in 250 ms, and no process has more attempts in progress than it may have. If
// more than ten of the others hang, that is so if the endpoint is known to be quick.
func TestLawOfFairness(t *testing.T) {
	t.Parallel()
	worlds.Each(t, 100, testFairness)
}

func testFairness(t *testing.T, r *rand.Rand) {
	config := Config{Workers: worlds.Pick(r, 1, 2, 3, 4, 10, 40)}
	if worlds.Chance(r, .2) {
		config.PerEndpoint = 1 + r.IntN(config.Workers)
	}
	probe := newLedger(config.withDefaults())
	span := func(least, most time.Duration) time.Duration {
		return least + time.Duration(r.Int64N(int64(most-least)))
	}
	var parties []party
	bad, sparse := hogs, 1+r.IntN(8)
	many := worlds.Chance(r, .2) // more hang than may be in progress
	if many {
		bad = 3 * probe.total
	}
	for range 1 + r.IntN(4) {
		p := party{name: "slow", n: r.IntN(bad + 1)}
		slow := span(quickly, 15*time.Second)
		kind := r.IntN(5)
		switch {
		case many || kind == 0:
			p.takes = always(slow)
		case kind == 1:
			p.takes = oneIn(2+r.IntN(50), slow)
		case kind == 2:
			p.takes = between(300*time.Millisecond, 8*time.Second)
		case kind == 3:
			p.takes = nowAndThen(span(time.Second, 20*time.Second), slow)
		case kind == 4:
			p.takes = always(span(20*time.Millisecond, quickly)) // quick ones with a backlog
			p.n = r.IntN(40)
		}
		if kind < 4 || many {
			bad -= p.n
		}
		parties = append(parties, p)
	}
	slots := min(probe.kept+1, probe.workers-min(probe.kept, probe.workers-1))
	limit := quickly * time.Duration(1+(2*sparse+slots-1)/slots)
	quick := party{
		name: "quick", n: sparse, takes: between(time.Millisecond, 50*time.Millisecond),
		interval: 2*limit + span(0, time.Second), known: many,
	}
	processes := worlds.Pick(r, 1, 1, 1, 3)
	s, groups := simulate(r, config, processes, 20*time.Second, append(parties, quick)...)
	if all := s.lateness(groups[len(parties)]); len(all) > 0 && all[len(all)-1] > limit {
		t.Errorf("%+v, %d processes: a delivery waits %v, more than %v, beside", config, processes, all[len(all)-1], limit)
		for _, p := range parties {
			t.Logf("%+v", p)
		}
	}
	if s.most > config.Workers+extra {
		t.Errorf("%+v: %d attempts in progress", config, s.most)
	}
}

func TestOneEndpointAlone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		workers, perEndpoint int
		quick                bool
		want                 int
	}{
		{200, 0, false, 90}, {10, 0, false, 7}, {4, 0, false, 3}, {2, 0, false, 1}, {1, 0, false, 1}, {200, 30, false, 30},
		{200, 200, true, 90}, {10, 0, true, 10},
	} {
		l := newLedger(Config{Workers: tt.workers, PerEndpoint: tt.perEndpoint}.withDefaults())
		l.accounts["a"] = &account{mean: quickly}
		if tt.quick {
			l.accounts["a"].mean--
		}
		chosen, _ := l.allot([]candidate{{Endpoint: "a", turns: math.MaxInt}}, time.Now())
		if len(chosen) != 1 || chosen[0].N != tt.want || !l.full {
			t.Errorf("%+v: %+v", tt, chosen)
		}
	}
}

// allotted returns how many deliveries of each candidate are taken, which have
// waited equally long.
func allotted(l *ledger, now time.Time, names ...string) (all []int) {
	var due []candidate
	for _, name := range names {
		due = append(due, candidate{Endpoint: name, turns: math.MaxInt})
	}
	l.allot(due, now)
	for _, c := range due {
		all = append(all, c.N)
	}
	return all
}

// An endpoint is quick if its last attempts are on average, also those in progress. An
// unused one is forgotten.
func TestWhatCounts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := newLedger(Config{Workers: 8, PerEndpoint: 9}.withDefaults()) // 2 are reserved
	pass := func(d time.Duration) { now = now.Add(d) }
	attempt := func(d time.Duration) {
		l.enter(1, "a", health{}, now)
		pass(d)
		l.responded(1, d, false, now)
		l.leave(1, now)
	}
	want := func(what string, n int) {
		t.Helper()
		if got := allotted(l, now, "a"); got[0] != n {
			t.Errorf("%s: %v, want %d", what, got, n)
		}
	}
	want("a new one", 6)
	for range 4 {
		attempt(quickly / 2)
		want("a quick one", 8)
	}
	attempt(2 * quickly)
	want("one slow attempt", 8)
	l.enter(2, "a", health{}, now)
	pass(5 * time.Second)
	want("an attempt that hangs", 6)
	l.responded(2, 5*time.Second, false, now)
	l.leave(2, now)
	want("it has ended", 6)
	for range 2 * ofLast {
		attempt(10 * time.Millisecond)
	}
	want("quick again", 8)
	pass(lately + 1)
	l.enter(3, "a", health{}, now)
	l.responded(3, 0, true, now)
	l.leave(3, now)
	pass(lately + 1)
	l.unnoted(now)
	if all := l.unnoted(now); len(all) != 1 {
		t.Errorf("%d successes, which were not noted", len(all))
	} else {
		l.note(all)
	}
	l.unnoted(now)
	if len(l.accounts) != 0 || len(l.attempts) != 0 {
		t.Errorf("%d accounts, %d attempts", len(l.accounts), len(l.attempts))
	}
}

// When a worker is free by the time alone, it is looked for then.
func TestNextWorker(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := newLedger(Config{Workers: 1}.withDefaults())
	l.enter(1, "a", health{}, now)
	due := []candidate{{Endpoint: "b", turns: 1}}
	if chosen, next := l.allot(due, now); len(chosen) != 0 || !next.Equal(now.Add(quickly)) {
		t.Errorf("%+v, next in %v", chosen, next.Sub(now))
	}
	if chosen, next := l.allot(due, now.Add(quickly)); len(chosen) != 1 || !next.IsZero() {
		t.Errorf("%+v, next at %v", chosen, next)
	}
}

// A job's next attempt may begin before the worker of the last one has returned.
func TestAttemptsOfAJobOverlap(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := newLedger(Config{}.withDefaults())
	l.enter(1, "a", health{}, now)
	l.enter(1, "a", health{}, now)
	l.leave(1, now)
	if all, _, _ := l.rooms(now); all.attempts != l.total-1 || l.accounts["a"].attempts != 1 {
		t.Errorf("room for %+v, of %+v", all, l.accounts["a"])
	}
	l.leave(1, now)
	l.leave(1, now) // River also reports a panic of the worker
	if all, _, _ := l.rooms(now); all.attempts != l.total || l.accounts["a"].attempts != 0 || len(l.attempts) != 0 {
		t.Errorf("afterward room for %+v, of %+v", all, l.accounts["a"])
	}
}

// An endpoint gets the turns of its throttle, and a probe counts as one.
func TestAllotKeepsTurns(t *testing.T) {
	t.Parallel()
	l := newLedger(Config{}.withDefaults())
	chosen, _ := l.allot([]candidate{{Endpoint: "a", turns: 1}, {Endpoint: "b", turns: 3}}, time.Now())
	if len(chosen) != 2 || chosen[0].N != 1 || chosen[1].N != 3 || l.full {
		t.Errorf("%+v, full: %v", chosen, l.full)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	l := newLedger(Config{}.withDefaults())
	l.enter(1, "a", health{}, begin)
	for i, step := range []struct {
		failed bool
		want   health
	}{{true, health{failing: begin}}, {true, health{failing: begin}}, {false, health{}}, {true, health{failing: begin.Add(3 * time.Second)}}} {
		if endpoint, _, after := l.saw(1, step.failed, begin.Add(time.Duration(i)*time.Second)); endpoint != "a" || after != step.want {
			t.Errorf("after attempt %d: %s %+v, want %+v", i+1, endpoint, after, step.want)
		}
	}
	l.enter(2, "a", health{failing: begin, disabled: true}, begin)
	if _, _, after := l.saw(2, true, begin); !after.disabled {
		t.Error("a failure enables the endpoint")
	}
	if _, _, after := l.saw(2, false, begin); after != (health{}) {
		t.Errorf("after a success: %+v", after)
	}
}
