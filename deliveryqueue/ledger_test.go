package deliveryqueue

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A party is a number of endpoints of one kind in a simulation.
type party struct {
	n        int
	takes    func() time.Duration // an attempt
	interval time.Duration        // between two deliveries to one of them; 0: deliveries always wait
}

func always(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// A receiver is an endpoint in a simulation. Its counts are of the second half.
type receiver struct {
	name string
	party
	waiting []time.Time     // since when a delivery waits
	late    []time.Duration // from then to the attempt
	used    time.Duration   // of the workers
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
	now, from, end time.Time
	events         agenda
	ledgers        []*ledger
	receivers      []*receiver
	jobs           int64
}

// simulate returns the receivers of each party after the span.
func simulate(config Config, processes int, span time.Duration, parties ...party) [][]*receiver {
	begin := time.Unix(0, 0)
	s := &simulation{now: begin, from: begin.Add(span / 2), end: begin.Add(span)}
	for range processes {
		s.ledgers = append(s.ledgers, newLedger(config.withDefaults()))
	}
	groups := make([][]*receiver, len(parties))
	for k, p := range parties {
		for i := range p.n {
			r := &receiver{name: fmt.Sprintf("%d-%d", k, i), party: p}
			s.receivers, groups[k] = append(s.receivers, r), append(groups[k], r)
			if p.interval > 0 {
				s.after(rand.N(p.interval), func() { s.arrive(r) })
			}
		}
	}
	for i := 0; s.now.Before(s.end); i++ {
		for k := range s.ledgers {
			s.look(s.ledgers[(i+k)%len(s.ledgers)])
		}
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
	}
	return groups
}

func (s *simulation) after(d time.Duration, do func()) {
	heap.Push(&s.events, event{s.now.Add(d), do})
}

func (s *simulation) arrive(r *receiver) {
	r.waiting = append(r.waiting, s.now)
	s.after(time.Duration(float64(r.interval)*rand.ExpFloat64()), func() { s.arrive(r) })
}

// look runs when deliveries may be due.
func (s *simulation) look(l *ledger) {
	var due []candidate
	byName := make(map[string]*receiver)
	for _, r := range s.receivers {
		if len(r.waiting) > 0 || r.interval == 0 {
			due = append(due, candidate{Endpoint: r.name, turns: math.MaxInt})
			byName[r.name] = r
		}
	}
	for _, c := range l.allot(due, s.now) {
		r := byName[c.Endpoint]
		for n := c.N; n > 0 && (r.interval == 0 || len(r.waiting) > 0); n-- {
			s.attempt(l, r)
		}
	}
}

func (s *simulation) attempt(l *ledger, r *receiver) {
	if r.interval > 0 {
		if !s.now.Before(s.from) {
			r.late = append(r.late, s.now.Sub(r.waiting[0]))
		}
		r.waiting = r.waiting[1:]
	}
	s.jobs++
	job, took := s.jobs, r.takes()
	l.enter(job, r.name, health{}, s.now)
	s.after(took, func() { l.leave(job, s.now) })
	begin, end := max(s.now.Sub(s.from), 0), min(s.now.Add(took).Sub(s.from), s.end.Sub(s.from))
	r.used += max(end-begin, 0)
}

// p99 returns the 99th percentile of how late the deliveries were.
func p99(all []*receiver) time.Duration {
	var late []time.Duration
	for _, r := range all {
		late = append(late, r.late...)
		for range r.waiting {
			late = append(late, math.MaxInt64)
		}
	}
	slices.Sort(late)
	return late[(len(late)-1)*99/100]
}

// Whatever some of fifty endpoints do, the deliveries to the others begin at once,
// and the slow endpoints share the rest equally.
func TestLedgerIsFair(t *testing.T) {
	t.Parallel()
	const span, quick = 40 * time.Second, 10 * time.Millisecond
	hang := defaultAttemptTimeout
	tries := []struct {
		name  string
		takes func() time.Duration
	}{
		{"0.5 s", always(500 * time.Millisecond)}, {"2 s", always(2 * time.Second)}, {"4.9 s", always(4900 * time.Millisecond)},
		{"until the timeout", always(hang)},
		{"until the timeout, one in ten", func() time.Duration {
			if rand.N(10) == 0 {
				return hang
			}
			return quick
		}},
	}
	for _, processes := range []int{1, 3} {
		for _, try := range tries {
			for _, slow := range []int{1, 4, 10, 40} {
				config := Config{Workers: 40}
				if try.name == tries[3].name && processes == 1 {
					config.Workers = 0 // the default
				}
				if processes > 1 && slow != 40 {
					continue
				}
				parties := simulate(config, processes, span,
					party{slow, try.takes, 0}, party{50 - slow, always(quick), time.Duration(50-slow) * 20 * time.Millisecond})
				name := fmt.Sprintf("%d processes, %d endpoints take %s", processes, slow, try.name)
				if late := p99(parties[1]); late > quick {
					t.Errorf("%s: p99 of the others is %v late", name, late)
				}
				workers := config.withDefaults().Workers
				room := min(workers-workers/4, slow*workers/10) * processes
				var used, least, most time.Duration = 0, math.MaxInt64, 0
				for _, r := range parties[0] {
					used, least, most = used+r.used, min(least, r.used), max(most, r.used)
				}
				if got := used.Seconds() / (span / 2).Seconds(); got < .95*float64(room)-1 || got > 1.05*float64(room)+1 {
					t.Errorf("%s: they have %.1f workers of %d", name, got, room)
				}
				if one := time.Duration(processes) * hang; most > least+one && float64(most-one) > 1.2*float64(least) {
					t.Errorf("%s: they have %v to %v of the workers", name, least, most)
				}
			}
		}
	}
}

// More workers, or a longer timeout of attempts that hang, make no endpoint wait.
func TestLedgerWithMore(t *testing.T) {
	t.Parallel()
	for _, config := range []Config{
		{Workers: 15}, {Workers: 20}, {Workers: 100}, {Workers: 20, AttemptTimeout: time.Second},
		{Workers: 20, AttemptTimeout: time.Minute}, {Workers: 20, AttemptTimeout: time.Hour},
	} {
		hang := config.withDefaults().AttemptTimeout
		// In the first half, each endpoint is tried once.
		quick := party{10, always(10 * time.Millisecond), max(time.Second, hang/50)}
		parties := simulate(config, 1, 8*hang, party{40, always(hang), 0}, quick)
		if late := p99(parties[1]); late > 10*time.Millisecond {
			t.Errorf("%d workers, %v: p99 of the others is %v late", config.Workers, hang, late)
		}
	}
}

func TestOneEndpointAlone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ workers, perEndpoint, want int }{
		{200, 0, 150}, {10, 0, 7}, {4, 0, 3}, {2, 0, 1}, {1, 0, 1}, {200, 30, 30}, {200, 200, 150},
	} {
		l := newLedger(Config{Workers: tt.workers, PerEndpoint: tt.perEndpoint}.withDefaults())
		chosen := l.allot([]candidate{{Endpoint: "a", turns: math.MaxInt}}, time.Now())
		if len(chosen) != 1 || chosen[0].N != tt.want || !l.full {
			t.Errorf("%+v: %+v", tt, chosen)
		}
	}
}

// allotted returns how many deliveries of each candidate are taken.
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

// The time that an attempt takes counts while the attempt is in progress, and
// decays afterwards. An unused endpoint is forgotten when its time no longer
// counts.
func TestWhatCounts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := newLedger(Config{Workers: 8, PerEndpoint: 8}.withDefaults()) // 2 workers are reserved
	pass := func(d time.Duration) { now = now.Add(d) }
	for job, name := range []string{"hangs", "quick", "new"} {
		l.enter(int64(job), name, health{}, now)
	}
	l.leave(1, now.Add(10*time.Millisecond))
	pass(time.Second)
	for job := range int64(5) {
		l.enter(10+job, "hangs", health{}, now)
	}
	if got := allotted(l, now, "hangs", "quick", "new"); !slices.Equal(got, []int{0, 1, 0}) {
		t.Errorf("beside seven in progress: %v", got)
	}
	for job := range int64(5) {
		l.leave(10+job, now)
	}
	l.leave(0, now)
	l.leave(2, now)
	if got := allotted(l, now, "hangs", "quick", "new"); got[1] <= got[0] {
		t.Errorf("afterward: %v", got)
	}
	for job := range int64(5) {
		l.enter(10+job, "others", health{}, now)
	}
	if got := allotted(l, now, "hangs", "quick"); got[0] != 0 || got[1] == 0 {
		t.Errorf("for the last worker that is not kept: %v", got)
	}
	for job := range int64(5) {
		l.leave(10+job, now)
	}
	pass(shortestLately + time.Minute)
	l.flush(now)
	if len(l.accounts) != 0 || len(l.attempts) != 0 {
		t.Errorf("%d accounts, %d attempts", len(l.accounts), len(l.attempts))
	}
	l.enter(0, "long", health{}, now)
	pass(time.Hour)
	l.leave(0, now)
	pass(shortestLately + time.Minute)
	l.flush(now)
	if len(l.accounts) != 1 {
		t.Error("an endpoint that took an hour is forgotten at once")
	}
}

// Half of the reserved workers are not for new endpoints.
func TestNewEndpoints(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := newLedger(Config{Workers: 40}.withDefaults())
	l.enter(1, "quick", health{}, now)
	l.leave(1, now.Add(10*time.Millisecond))
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprint(i))
	}
	if n := sum(allotted(l, now, names...)); n != 35 {
		t.Errorf("a hundred that are new have %d workers of 40", n)
	}
	for i := range int64(35) {
		l.enter(i, fmt.Sprint(i), health{}, now)
	}
	if got := allotted(l, now.Add(time.Second), "another", "quick"); got[0] != 0 || got[1] == 0 {
		t.Errorf("beside them: %v", got)
	}
}

func sum(all []int) (sum int) {
	for _, n := range all {
		sum += n
	}
	return sum
}

// A job's next attempt may begin before the worker of the last one has returned.
func TestAttemptsOfAJobOverlap(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := newLedger(Config{}.withDefaults())
	l.enter(1, "a", health{}, now)
	l.enter(1, "a", health{}, now)
	l.leave(1, now)
	if l.busy != 1 || l.accounts["a"].attempts != 1 {
		t.Errorf("%d are busy, of %+v", l.busy, l.accounts["a"])
	}
	l.leave(1, now)
	l.leave(1, now) // River also reports a panic of the worker
	if got := allotted(l, now, "a"); got[0] == 0 || l.busy != 0 || l.accounts["a"].attempts != 0 || len(l.attempts) != 0 {
		t.Errorf("afterward %v, %d are busy, of %+v", got, l.busy, l.accounts["a"])
	}
}

// An endpoint gets the turns of its throttle, and a probe counts as one.
func TestAllotKeepsTurns(t *testing.T) {
	t.Parallel()
	l := newLedger(Config{}.withDefaults())
	chosen := l.allot([]candidate{{Endpoint: "a", turns: 1}, {Endpoint: "b", turns: 3}}, time.Now())
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
