package fleet_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/retrier"
	"example.com/awsretry/internal/worlds"
)

var worldCount = flag.Int("worlds", 20, "how many worlds TestWorlds and TestWorldsBesideAlone draw")

// A span is a time of a world, from its start.
type span struct{ from, to time.Duration }

func (s span) has(t time.Duration) bool { return t >= s.from && t < s.to }

// A world is a fleet, a service and a store, and what happens to them.
type world struct {
	maxRate float64 // 0: none
	lease   time.Duration
	pacing  awsretry.Pacing
	length  time.Duration
	members []span
	callers int
	answer  time.Duration // of the service

	rate   float64 // of the service; 0: it accepts everything
	spans  []throttling
	faults []storeFault

	alone    bool
	seed     uint64 // of the members' jitter
	started  time.Time
	mu       sync.Mutex
	tokens   float64
	at       time.Duration
	sent     []worldSending
	renewals atomic.Int64
	r        *rand.Rand // of the service, guarded by mu
}

// A throttling is a span in which the service throttles a share of the requests.
type throttling struct {
	span
	share float64
}

// A storeFault is a span in which the store has a fault for all processes.
type storeFault struct {
	span
	kind faultKind
}

type faultKind string

const (
	storeRefuses faultKind = "refuses"
	storeLoses   faultKind = "loses replies"
	storeRepeats faultKind = "repeats"
	storePauses  faultKind = "pauses"
	storeForgets faultKind = "forgets"
	storeReturns faultKind = "returns to a copy" // of the beginning of the span
)

type worldSending struct {
	at       time.Duration
	member   int
	accepted bool
}

// newWorld draws a world.
func newWorld(r *rand.Rand) *world {
	w := &world{
		lease:   worlds.Pick(r, 50*time.Millisecond, 100*time.Millisecond, 400*time.Millisecond, 400*time.Millisecond, time.Second, 5*time.Second),
		pacing:  worlds.Pick(r, awsretry.CubicPacing, awsretry.ScaledPacing),
		length:  time.Minute,
		callers: 1 + r.IntN(4),
		answer:  worlds.Pick(r, time.Millisecond, 10*time.Millisecond, 10*time.Millisecond, 300*time.Millisecond),
		r:       r, seed: r.Uint64(),
	}
	if worlds.Chance(r, 0.75) {
		w.maxRate = math.Round(10*math.Pow(10, -1+4*r.Float64())) / 10
	}
	if w.maxRate == 0 || worlds.Chance(r, 0.3) {
		w.rate = math.Pow(10, 3*r.Float64()) // 1 to 1,000
	}
	for range worlds.Pick(r, 1, 2, 5, 5, 12, 40) {
		m := span{0, w.length}
		if worlds.Chance(r, 0.3) {
			m.from = time.Duration(r.Int64N(int64(w.length / 2)))
		}
		if worlds.Chance(r, 0.2) {
			m.to = m.from + time.Duration(r.Int64N(int64(w.length/2)))
		}
		w.members = append(w.members, m)
	}
	somewhen := func(longest time.Duration) span {
		from := time.Duration(r.Int64N(int64(w.length * 3 / 4)))
		return span{from, min(from+time.Duration(r.Int64N(int64(longest))), w.length)}
	}
	if worlds.Chance(r, 0.5) {
		for range 1 + r.IntN(3) {
			w.spans = append(w.spans, throttling{somewhen(10 * time.Second), worlds.Pick(r, 0.05, 0.5, 1, 1)})
		}
	}
	if worlds.Chance(r, 0.5) {
		kinds := []faultKind{storeRefuses, storeLoses, storeRepeats, storePauses, storeForgets, storeReturns}
		longest := worlds.Pick(r, w.lease, 2*time.Second, 20*time.Second)
		for range 1 + r.IntN(20) {
			f := storeFault{somewhen(longest), worlds.Pick(r, kinds...)}
			w.faults = append(w.faults, f)
		}
	}
	return w
}

func (w *world) String() string {
	return fmt.Sprintf("MaxRate %g, lease %v, %v, %d members, %d callers, answers after %v, rate %.3g, throttles %v, store %v",
		w.maxRate, w.lease, w.pacing, len(w.members), w.callers, w.answer, w.rate, w.spans, w.faults)
}

// A worldBase is the way of a member to the service.
type worldBase struct {
	*world
	member int
}

func (b worldBase) RoundTrip(req *http.Request) (*http.Response, error) {
	code := b.arrive(b.member)
	time.Sleep(b.answer)
	return httpfake.Empty(code, req), nil
}

func (w *world) arrive(member int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, code := time.Since(w.started), http.StatusOK
	if w.rate > 0 {
		w.tokens = min(w.tokens+(now-w.at).Seconds()*w.rate, max(w.rate/5, 2))
		if w.at = now; w.tokens < 1 {
			code = http.StatusTooManyRequests
		}
	}
	for _, s := range w.spans {
		if s.has(now) && w.r.Float64() < s.share {
			code = http.StatusTooManyRequests
		}
	}
	if code == http.StatusOK && w.rate > 0 {
		w.tokens--
	}
	w.sent = append(w.sent, worldSending{now, member, code == http.StatusOK})
	return code
}

// A worldSchedule is what is random in one member, whose goroutine alone uses it.
type worldSchedule struct{ r *rand.Rand }

func (s worldSchedule) RenewIn(d time.Duration) time.Duration {
	return d - d/20 + time.Duration(s.r.Int64N(int64(d/10)+1))
}

func (worldSchedule) BeginRenewal() {}

func (s worldSchedule) FirstToken() float64 { return s.r.Float64() }

// A worldStore is the way of the members to the store.
type worldStore struct {
	*fleettest.Store
	*world
}

func (s worldStore) Eval(ctx context.Context, script string, keys, args []string) ([]string, error) {
	s.renewals.Add(1)
	for _, f := range s.faults {
		now := time.Since(s.started)
		if !f.has(now) {
			continue
		}
		switch f.kind {
		case storeRefuses:
			return nil, errors.New("refused")
		case storeLoses:
			_, _ = s.Store.Eval(ctx, script, keys, args)
			return nil, errors.New("the reply is lost")
		case storeRepeats:
			_, _ = s.Store.Eval(ctx, script, keys, args)
		case storePauses: // then it does what arrived, even if nobody waits for it
			sleep := time.NewTimer(f.to - now)
			defer sleep.Stop()
			select {
			case <-sleep.C:
			case <-ctx.Done():
				go func() {
					time.Sleep(time.Until(s.started.Add(f.to)))
					_, _ = s.Store.Eval(context.Background(), script, keys, args)
				}()
				return nil, ctx.Err()
			}
		}
	}
	return s.Store.Eval(ctx, script, keys, args)
}

// run lets the world pass.
func (w *world) run(t *testing.T) {
	store := worldStore{&fleettest.Store{Latency: time.Millisecond}, w}
	w.started, w.tokens = time.Now(), max(w.rate/5, 2)
	var all sync.WaitGroup
	for _, f := range w.faults {
		all.Go(func() {
			time.Sleep(f.from)
			switch restore := store.Copy(); f.kind {
			case storeForgets:
				store.Flush()
			case storeReturns:
				time.Sleep(f.to - f.from)
				restore()
			}
		})
	}
	for i, m := range w.members {
		all.Go(func() {
			time.Sleep(m.from)
			tr := &awsretry.Transport{
				Base: worldBase{w, i}, Mode: awsretry.Adaptive, MaxAttempts: 1,
				RateLimit: awsretry.RateLimitConfig{Pacing: w.pacing},
			}
			if !w.alone {
				shared := newFleet(t, store, fleet.Config{MaxRate: w.maxRate, Lease: w.lease})
				shared.Schedule(retrier.Seal{}, worldSchedule{rand.New(rand.NewPCG(w.seed, uint64(i)))})
				defer shared.Close()
				tr.Shared = shared
			}
			ctx, cancel := context.WithCancel(t.Context()) // without a deadline, which would refuse waits
			defer cancel()
			time.AfterFunc(m.to-m.from, cancel)
			var callers sync.WaitGroup
			for range w.callers {
				callers.Go(func() {
					for ctx.Err() == nil {
						if code, _ := status(ctx, tr, host); code != http.StatusOK {
							time.Sleep(time.Millisecond)
						}
					}
				})
			}
			callers.Wait()
		})
	}
	all.Wait()
	time.Sleep(time.Until(w.started.Add(w.length + time.Second))) // what is on its way to the store arrives
}

// standstill returns the longest time in which callers waited and the service would
// have accepted a request, but none was sent.
func (w *world) standstill() (longest span) {
	at := time.Duration(0)
	until := func(t time.Duration) {
		if t-at > longest.to-longest.from {
			longest = span{at, t}
		}
		at = max(at, t)
	}
	var ends []worldSending // of the times in which nothing would be accepted or nobody waits
	for t := time.Duration(0); t < w.length; t += 100 * time.Millisecond {
		blocked := slices.ContainsFunc(w.spans, func(s throttling) bool { return s.share == 1 && s.has(t) }) ||
			!slices.ContainsFunc(w.members, func(m span) bool { return m.has(t) })
		if blocked {
			ends = append(ends, worldSending{at: t})
		}
	}
	all := append(ends, w.sent...)
	slices.SortFunc(all, func(a, b worldSending) int { return int(a.at - b.at) })
	for _, s := range all {
		until(s.at)
	}
	until(w.length)
	return longest
}

// most returns how many requests were sent in the fullest second, and when it began.
func (w *world) most() (n int, from time.Duration) {
	first := 0
	for i, s := range w.sent {
		for s.at-w.sent[first].at >= time.Second {
			first++
		}
		if i-first+1 > n {
			n, from = i-first+1, w.sent[first].at
		}
	}
	return n, from
}

// allowed returns how many requests a second may have by the page.
func (w *world) allowed() float64 {
	n := math.Ceil(w.maxRate)
	if len(w.faults) == 0 {
		return math.Ceil(n*1.02 + w.maxRate/100*float64(len(w.members))) // before their first leases
	}
	if w.maxRate < float64(len(w.members)) { // parts of less than one request a second add up to MaxRate on average
		n += 4 * math.Sqrt(n)
	}
	for _, m := range w.members {
		if m.from > 0 { // perhaps without the store
			n += max(w.maxRate/100, min(w.maxRate/3, 0.1))
		}
	}
	if slices.ContainsFunc(w.faults, func(f storeFault) bool { return f.kind == storeReturns }) {
		n += w.maxRate * w.lease.Seconds() * 3 / 8 // slots that are granted twice
	}
	n += math.Ceil(w.maxRate / float64(len(w.members))) // of a process that reaches the store later than others
	return n*1.04 + 1
}

// TestWorlds checks the laws of a fleet in worlds drawn at random: nothing that waits
// comes to rest, and no second has more than MaxRate.
func TestWorlds(t *testing.T) {
	check := func(t *testing.T, r *rand.Rand) {
		w := newWorld(r)
		w.run(t)
		bound := max(2*w.lease, 10*time.Second)
		if w.maxRate > 0 {
			bound = max(bound, time.Duration(3/w.maxRate*float64(time.Second)))
		}
		if len(w.faults) > 0 { // a lost reply makes a process count twice for a while
			bound *= 2
		}
		if s := w.standstill(); s.to-s.from > bound+w.answer {
			t.Errorf("nothing was sent from %v to %v\n%v", s.from, s.to, w)
		}
		if n, from := w.most(); w.maxRate > 0 && float64(n) > w.allowed() {
			t.Errorf("%d were sent in a second from %v, want at most %g\n%v", n, from, w.allowed(), w)
		}
		if w.maxRate > 0 && w.rate == 0 && len(w.spans)+len(w.faults) == 0 && slices.IndexFunc(w.members, func(m span) bool { return m.from == 0 && m.to == w.length }) >= 0 {
			offered := min(w.maxRate, float64(w.callers)/w.answer.Seconds())
			if n, want := float64(len(w.sent)), offered*(w.length-3*w.lease/2).Seconds(); w.lease < 5*time.Second && w.maxRate <= offered && n < 0.95*want-1 {
				t.Errorf("%.3f of MaxRate was sent\n%v", n/want, w)
			}
		}
	}
	for _, seed := range []uint64{
		3330, // the store fails when processes have joined and have no lease yet
	} {
		worlds.One(t, seed, check)
	}
	worlds.Each(t, *worldCount, check)
}

// TestWorldsBesideAlone compares what a service accepts from a fleet and from the
// same processes that share nothing. A fleet may have less where each process alone
// sends far more than is accepted; in all worlds together it does not.
func TestWorldsBesideAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("needs many worlds")
	}
	var parts, throttled, throttledAlone float64
	worlds.Each(t, *worldCount, func(t *testing.T, r *rand.Rand) {
		seed := r.Uint64()
		var sent, accepted [2]float64
		for i := range 2 {
			w := newWorld(rand.New(rand.NewPCG(seed, 0)))
			w.maxRate, w.faults, w.alone = 0, nil, i == 1
			w.lease, w.rate = min(w.lease, time.Second), cmp.Or(w.rate, 100)
			w.run(t)
			sent[i], accepted[i] = w.count()
		}
		part := accepted[0] / max(accepted[1], 1)
		t.Logf("accepted %.0f, alone %.0f: %.2f", accepted[0], accepted[1], part)
		if part < 0.15 {
			t.Errorf("a fleet has %.2f of what is accepted alone", part)
		}
		parts += min(part, 1)
		throttled += 1 - accepted[0]/max(sent[0], 1)
		throttledAlone += 1 - accepted[1]/max(sent[1], 1)
	})
	n := float64(*worldCount)
	t.Logf("a fleet has %.3f of what is accepted alone; %.3f are throttled, alone %.3f", parts/n, throttled/n, throttledAlone/n)
	if parts < 0.85*n || throttled > throttledAlone {
		t.Error("want at least 0.85, and not more throttled than alone")
	}
}

// count returns how many requests were sent, and how many accepted.
func (w *world) count() (sent, accepted float64) {
	for _, s := range w.sent {
		if s.accepted {
			accepted++
		}
	}
	return float64(len(w.sent)), accepted
}
