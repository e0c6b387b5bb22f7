package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
)

// A link is one process's way to a store. It fails in turn as its mode says.
type link struct {
	fleet.Client
	mode  atomic.Int64
	evals atomic.Int64
}

const (
	works      = iota
	refuses    // nothing arrives
	loses      // no reply arrives
	losesEvery // every second reply does not arrive
)

func (l *link) Eval(ctx context.Context, script string, keys, args []string) ([]string, error) {
	mode := l.mode.Load()
	if mode == refuses {
		return nil, errors.New("refused")
	}
	reply, err := l.Client.Eval(ctx, script, keys, args)
	if mode == loses || mode == losesEvery && l.evals.Add(1)%2 == 0 {
		return nil, errors.New("the reply is lost")
	}
	return reply, err
}

// A pool is processes with one bucket of retry tokens, in virtual time.
type pool struct {
	store    *fleettest.Store
	quota    awsretry.QuotaConfig
	status   int // of all responses
	attempts int
	pooled   []*pooled
	started  []*pooled // all of them
}

// end ends all processes.
func (p *pool) end() {
	for _, one := range p.started {
		one.shared.Close()
	}
}

type pooled struct {
	process
	link *link
}

// start starts a process that has a lease.
func (p *pool) start(t *testing.T) *pooled {
	t.Helper()
	next := &pooled{link: &link{Client: p.store}}
	next.shared = fleet.New(next.link, fleet.Config{})
	p.started = append(p.started, next)
	next.transport = &awsretry.Transport{
		Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			p.attempts++
			return respond(p.status, 0).RoundTrip(req)
		}),
		Shared: next.shared, Quota: p.quota, Backoff: awsretry.Decorrelated{Initial: time.Millisecond, Max: time.Millisecond},
	}
	status := p.status
	p.status = http.StatusNotFound // neither a success nor retried
	next.call(t.Context())
	p.status = status
	time.Sleep(time.Second)
	if s := next.state(); !s.Leased || s.Tokens > 20 {
		t.Fatalf("a process that joined a second ago has the state %+v", s)
	}
	p.pooled = append(p.pooled, next)
	return next
}

// stored returns the retry tokens that the store has.
func (p *pool) stored() int {
	n, _ := p.store.Tokens("awsretry:{" + host + "}")
	return int(n)
}

// sum returns all retry tokens that there are.
func (p *pool) sum() int {
	n := p.stored()
	for _, one := range p.pooled {
		n += one.state().Tokens
	}
	return n
}

// Whatever processes do, and whatever happens to the store and the way to it,
// there are never more retry tokens than the bucket of all processes may have.
// Without successes, and while the store keeps what it has, they never become
// more.
func TestTokensAreNotMinted(t *testing.T) {
	const capacity = 500
	runs, steps := uint64(3), 120
	if raceEnabled {
		runs, steps = 1, 40
	}
	for name, test := range map[string]struct {
		increment int // for a success; 0 is 1
		restarts  bool
	}{
		"no successes":           {-1, false},
		"no successes, restarts": {-1, true},
		"successes":              {1, false},
		"successes, restarts":    {1, true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range runs {
				synctest.Test(t, func(t *testing.T) {
					random := rand.New(rand.NewPCG(seed, 0))
					p := &pool{
						store: &fleettest.Store{Latency: time.Millisecond}, status: http.StatusServiceUnavailable,
						quota: awsretry.QuotaConfig{SuccessIncrement: test.increment},
					}
					defer p.end()
					p.start(t)
					before := p.sum()
					for range steps {
						what := random.IntN(10)
						one := p.pooled[random.IntN(len(p.pooled))]
						remove := func() {
							for i, other := range p.pooled {
								if other == one {
									p.pooled = append(p.pooled[:i], p.pooled[i+1:]...)
									break
								}
							}
						}
						switch {
						case what == 0 && len(p.pooled) < 12:
							p.start(t)
						case what == 1 && len(p.pooled) > 1: // it leaves
							one.shared.Close()
							remove()
						case what == 2 && len(p.pooled) > 1: // it dies
							one.link.mode.Store(refuses)
							remove()
						case what == 3 && test.restarts:
							p.store.Flush()
						case what < 7: // its way to the store fails, or works again
							one.link.mode.Store(int64(random.IntN(4)))
						default:
							p.status = http.StatusServiceUnavailable
							if test.increment > 0 && random.IntN(2) == 0 {
								p.status = http.StatusOK
							}
							for range 30 {
								one.call(t.Context())
								time.Sleep(20 * time.Millisecond)
							}
							p.status = http.StatusServiceUnavailable
						}
						time.Sleep(500 * time.Millisecond)
						settled := random.IntN(5) == 0
						if settled { // and all have renewed
							for _, one := range p.pooled {
								one.link.mode.Store(works)
							}
							time.Sleep(5 * time.Second)
						}
						switch now := p.sum(); {
						case test.increment < 0 && !test.restarts && now > before:
							t.Fatalf("%d retry tokens, %d before", now, before)
						case settled && now > capacity:
							t.Fatalf("%d retry tokens of %d", now, capacity)
						default:
							before = now
						}
					}
				})
			}
		})
	}
}

// Processes that start and stop without a success bring no retry tokens.
func TestDeployInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{store: &fleettest.Store{Latency: time.Millisecond}, status: http.StatusServiceUnavailable}
		defer p.end()
		p.start(t)
		for range 150 {
			p.pooled[0].call(t.Context())
			time.Sleep(50 * time.Millisecond)
		}
		if before := p.sum(); before > 20 {
			t.Fatalf("%d retry tokens in an outage", before)
		}
		before := p.attempts
		for range 20 {
			one := p.start(t)
			one.call(t.Context())
			one.shared.Close()
		}
		if retries := p.attempts - before - 2*20; retries > 4 {
			t.Errorf("20 processes that start and stop make %d retries", retries)
		}
	})
}

// A store that comes back empty gets the retry tokens that its fleet had left,
// also if a new process is the first to find it.
func TestNewProcessFindsAnEmptyStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{store: &fleettest.Store{Latency: time.Millisecond}, status: http.StatusServiceUnavailable}
		defer p.end()
		old := p.start(t)
		retries := func() int {
			before := p.attempts
			for range 150 {
				old.call(t.Context())
				time.Sleep(50 * time.Millisecond)
			}
			return p.attempts - before - 150
		}
		if n := retries(); n < 90 || n > 100 {
			t.Errorf("a bucket of 500 tokens pays for %d retries, want 100", n)
		}
		old.link.mode.Store(refuses)
		time.Sleep(5 * time.Second)
		p.store.Flush()
		p.start(t)
		old.link.mode.Store(works)
		time.Sleep(time.Second)
		if n := retries(); n > 4 {
			t.Errorf("a new process that made the key again brought %d retries", n)
		}
	})
}

// Close leaves a Transport the retry tokens of one retry, and gives the others
// back.
func TestTokensAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{store: &fleettest.Store{Latency: time.Millisecond}, status: http.StatusOK}
		defer p.end()
		one := p.start(t)
		for range 5 {
			one.call(t.Context())
		}
		time.Sleep(time.Second)
		if stored, known := p.stored(), one.state().FleetTokens; known != stored {
			t.Errorf("the process knows of %d retry tokens in the store, which has %d", known, stored)
		}
		one.shared.Close()
		if has, stored := one.state().Tokens, p.stored(); has != 10 || stored != 490 {
			t.Errorf("after Close the process has %d retry tokens and the store %d, want 10 and 490", has, stored)
		}
	})
}

// A process that knows the rate from before the store lost it brings it back,
// although another process made the key again.
func TestRateOfAnEmptyStore(t *testing.T) {
	var store fleettest.Store
	renew := func(id, epoch, seedRate string) string {
		r, err := store.Eval(t.Context(), fleet.Script, []string{"key"},
			renewal(map[int]string{argID: id, argEpoch: epoch, argSeedRate: seedRate}))
		if err != nil {
			t.Fatal(err)
		}
		return r[replyRate]
	}
	for _, test := range []struct{ id, epoch, seedRate, want string }{
		{"new", "", "0", "0"}, {"old", "before", "50", "50"}, {"older", "before", "70", "50"}, {"newest", "", "0", "50"},
	} {
		if got := renew(test.id, test.epoch, test.seedRate); got != test.want {
			t.Errorf("after a renewal of a process that is %s the rate is %s, want %s", test.id, got, test.want)
		}
	}
}

// Made-up names of partitions bring no retries: a partition that replaces another
// one in the table begins with what that one's fleet had left.
func TestTokensOfMadeUpPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts int
		shared := fleet.New(&fleettest.Store{Latency: time.Millisecond}, fleet.Config{})
		defer shared.Close()
		tr := &awsretry.Transport{
			Base: roundTripper(func(req *http.Request) (*http.Response, error) {
				attempts++
				return respond(http.StatusServiceUnavailable, 0).RoundTrip(req)
			}),
			Shared: shared, MaxPartitions: 1, Backoff: awsretry.Decorrelated{Initial: time.Millisecond, Max: time.Millisecond},
		}
		const requests = 500
		for i := range requests {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("http://host%d.test/", i/10), nil)
			if resp, err := tr.RoundTrip(req); err == nil {
				resp.Body.Close()
			}
			time.Sleep(50 * time.Millisecond)
		}
		if retries := attempts - requests; retries > 130 {
			t.Errorf("%d made-up partitions brought %d retries; a bucket pays for 100", requests/10, retries)
		}
	})
}

// A store that comes back with an older copy does not bring back what was spent
// since, and one that only refuses takes no tokens away.
func TestTokensOfAnOlderCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{store: &fleettest.Store{Latency: time.Millisecond}, status: http.StatusServiceUnavailable}
		defer p.end()
		p.start(t)
		restore := p.store.Copy()
		for range 150 {
			p.pooled[0].call(t.Context())
			time.Sleep(50 * time.Millisecond)
		}
		spent := p.sum()
		restore()
		time.Sleep(5 * time.Second)
		if sum := p.sum(); sum > spent+10 {
			t.Errorf("%d tokens, and %d after the store came back", spent, sum)
		}
	})
}

func TestTokensOfARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{store: &fleettest.Store{Latency: time.Millisecond}, status: http.StatusOK}
		defer p.end()
		for range 12 {
			p.start(t)
		}
		time.Sleep(20 * time.Second)
		before := p.sum()
		p.store.Refuse(errors.New("refused"))
		time.Sleep(5 * time.Second)
		p.store.Refuse(nil)
		time.Sleep(20 * time.Second)
		if sum := p.sum(); sum != before {
			t.Errorf("%d tokens before, %d after the store refused for 5 s", before, sum)
		}
	})
}
