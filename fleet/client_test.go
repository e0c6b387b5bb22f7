package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
	"example.com/awsretry/fleet/internal/protocol"
)

// An only is the only process of a fleet whose store is a function.
type only struct {
	*testing.T
	transport *awsretry.Transport
	base      *responder
	shared    *fleet.Fleet
	faults    faultLog
	evals     atomic.Int64
}

// alone tests a process in adaptive mode, in virtual time.
func alone(t *testing.T, eval func(r protocol.Request) ([]string, error), test func(o *only)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &only{T: t, base: respond(http.StatusOK, delay)}
		o.shared = newFleet(t, clientFunc(func(_ context.Context, _ string, r protocol.Request) ([]string, error) {
			o.evals.Add(1)
			return eval(r)
		}), fleet.Config{OnError: o.faults.add})
		o.transport = &awsretry.Transport{
			Base: o.base, Mode: awsretry.Adaptive, Shared: o.shared, Backoff: atOnce, ShareRetryAfter: true,
		}
		test(o)
		runtime.KeepAlive(o.transport)
		if err := o.shared.Close(); err != nil {
			t.Error(err)
		}
	})
}

// sendFor makes one request after another for some time.
func (o *only) sendFor(length time.Duration) {
	for start := time.Now(); time.Since(start) < length; {
		send(o, o.transport)
	}
}

var errBoom = errors.New("boom")

// Whatever the store replies, requests continue, at local limits if the reply is not
// valid, and OnError is called once, with printable text.
func TestBadReplies(t *testing.T) {
	returns := func(texts ...string) func(protocol.Request) ([]string, error) {
		return func(protocol.Request) ([]string, error) { return texts, nil }
	}
	set := func(change func(*protocol.Reply)) func(protocol.Request) ([]string, error) {
		return returns(reply(change)...)
	}
	share := func(rate, share float64) func(protocol.Request) ([]string, error) {
		return set(func(r *protocol.Reply) { r.Rate, r.Share = rate, share })
	}
	control := fmt.Errorf("%w \x1b[31m\n\x00\xff%s", errBoom, strings.Repeat("é", 1000))
	for name, test := range map[string]struct {
		eval func(protocol.Request) ([]string, error)
		want string // of the error
	}{
		"nothing":      {returns(), "0 values"},
		"error":        {func(protocol.Request) ([]string, error) { return nil, control }, "boom \ufffd[31m \ufffd\ufffdééé"},
		"panic":        {func(protocol.Request) ([]string, error) { panic("boom") }, "panicked: boom"},
		"empty":        {returns(""), `returned "":`},
		"no fields":    {returns("{}"), "an epoch of 0 bytes"},
		"long":         {returns(strings.Repeat("9", 1<<20)), "1048576 bytes"},
		"huge":         {share(1e308, 1), "for Rate"},
		"negative":     {share(-1, 0), "for Rate"},
		"huge grant":   {share(0, 1e8), "returned 1e+08 for Share"},
		"tiny share":   {share(100, 1e-300), "returned 1e-300 for Share"},
		"huge tokens":  {set(func(r *protocol.Reply) { r.Tokens = 1e6 }), "returned 1e+06 for Tokens"},
		"huge members": {set(func(r *protocol.Reply) { r.Members = 1e18 }), "for Members"},
		"long gate":    {set(func(r *protocol.Reply) { r.Gate = 1e15 }), "for Gate"},
		"huge epoch":   {set(func(r *protocol.Reply) { r.Epoch = strings.Repeat("e", 1000) }), "an epoch of 1000 bytes"},
		"huge clock":   {set(func(r *protocol.Reply) { r.Now = 1e14 }), "for Now"},
		"format":       {set(func(r *protocol.Reply) { r.Differs, r.Theirs = "format", "6" }), "have the format 6; this one has 5"},
		"huge sum":     {set(func(r *protocol.Reply) { r.Sent = 1e16 }), "for Sent"},
	} {
		t.Run(name, func(t *testing.T) {
			alone(t, test.eval, func(o *only) {
				for range 100 {
					if took := send(o, o.transport); took != delay {
						o.Fatalf("a request took %v", took)
					}
				}
				got := o.faults.all()
				if len(got) != 1 || !strings.Contains(got[0], test.want) || len(got[0]) > 410 ||
					strings.ContainsFunc(got[0], unicode.IsControl) || !utf8.ValidString(got[0]) {
					o.Errorf("OnError was called with %.1000q; want one error with %q", got, test.want)
				}
				if errors.Is(o.faults.last, errBoom) != (name == "error") {
					o.Errorf("got %v", o.faults.last)
				}
				if state := stateOf(o.transport); state.Fleet.Leased || state.Tokens != 500 || state.Limited {
					o.Errorf("the state is %+v", state)
				}
			})
		})
	}
}

// A share and a MaxRate that exceed what they should be by rounding are valid: JSON
// in the store has 14 digits.
func TestRoundedReplies(t *testing.T) {
	alone(t, func(protocol.Request) ([]string, error) {
		return reply(func(r *protocol.Reply) { r.Rate, r.Share = 100, math.Nextafter(100, 101) }), nil
	}, func(o *only) {
		o.sendFor(time.Second)
		if state := stateOf(o.transport); !state.Fleet.Leased || len(o.faults.all()) > 0 {
			o.Errorf("the state is %+v and the errors are %q", state, o.faults.all())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var faults faultLog
		shared := newFleet(t, clientFunc(func(_ context.Context, _ string, r protocol.Request) ([]string, error) {
			return reply(func(got *protocol.Reply) {
				got.MaxRate, got.Share, got.Every = math.Nextafter(r.MaxRate, math.Inf(1)), 50, 11
			}), nil
		}), fleet.Config{MaxRate: 100, OnError: faults.add})
		defer shared.Close()
		tr := &awsretry.Transport{Base: respond(200, 0), Mode: awsretry.Adaptive, Shared: shared}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = status(ctx, tr, host) // refused: no slot is granted
		time.Sleep(time.Second)
		if state := stateOf(tr); !state.Fleet.Leased || len(faults.all()) > 0 {
			t.Errorf("the state is %+v and the errors are %q", state, faults.all())
		}
	})
}

// A store that has far more outcomes than possible is an error for the process that
// leads.
func TestOutcomesThatCannotBe(t *testing.T) {
	highest := 0.0
	alone(t, func(r protocol.Request) ([]string, error) {
		highest = max(highest, r.Rate)
		return reply(func(r *protocol.Reply) { r.Rate, r.Share, r.Leader, r.Sent = 100, 100, true, 1e9 }), nil
	}, func(o *only) {
		send(o, o.transport)
		time.Sleep(10 * time.Second)
		synctest.Wait() // for a renewal at this time, which writes highest
		if got := o.faults.all(); len(got) == 0 || !strings.Contains(got[0], "1e+09 new outcomes") || highest > 1e6 {
			o.Errorf("the errors are %q, and the highest rate %g", got, highest)
		}
	})
}

// However often the renewals of however many partitions fail, OnError is called
// once a minute, and OnRecovered once when all succeed again. A panic in them ends
// neither the process nor the renewals.
func TestOnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		var faults, recoveries, renewals, failures atomic.Int64
		shared := newFleet(t, clientFunc(func(_ context.Context, key string, _ protocol.Request) ([]string, error) {
			if failing.Load() {
				return nil, fmt.Errorf("%w at port %d", errBoom, 4000+len(key))
			}
			return reply(nil), nil
		}), fleet.Config{
			OnError:     func(string, error) { faults.Add(1); panic("OnError") },
			OnRecovered: func() { recoveries.Add(1); panic("OnRecovered") },
			OnRenewal: func(_ string, _ time.Duration, err error) {
				if renewals.Add(1); err != nil {
					failures.Add(1)
				}
				panic("OnRenewal")
			},
		})
		defer shared.Close()
		tr := &awsretry.Transport{Base: respond(http.StatusOK, 0), Mode: awsretry.Adaptive, Shared: shared}
		for _, step := range []struct {
			failing            bool
			length             time.Duration
			faults, recoveries int64 // so far
		}{
			{false, 2 * time.Second, 0, 0},
			{true, 2 * time.Second, 1, 0},
			{false, 2 * time.Second, 1, 1},
			{true, 2 * time.Second, 1, 1},
			{true, time.Minute, 2, 1},
			{false, 2 * time.Second, 2, 2},
		} {
			failing.Store(step.failing)
			for start := time.Now(); time.Since(start) < step.length; time.Sleep(100 * time.Millisecond) {
				for i := range 5 {
					send(t, tr, strings.Repeat("x", i)+host)
				}
			}
			if faults.Load() != step.faults || recoveries.Load() != step.recoveries {
				t.Errorf("%+v: OnError was called %d times, OnRecovered %d times", step, faults.Load(), recoveries.Load())
			}
		}
		if n, bad := renewals.Load(), failures.Load(); !stateOf(tr).Fleet.Leased || bad < 500 || n-bad < 100 {
			t.Errorf("OnRenewal was called %d times, %d times with an error", n, bad)
		}
	})
}

// A slowStore responds after some of these times, in turn.
type slowStore struct {
	fleettest.Store
	takes    atomic.Pointer[[]time.Duration]
	renewals atomic.Int64
}

func (s *slowStore) Eval(ctx context.Context, script string, keys, args []string) ([]string, error) {
	all := *s.takes.Load()
	time.Sleep(all[int(s.renewals.Add(1))%len(all)])
	return s.Store.Eval(ctx, script, keys, args)
}

// A store that takes too much of a lease is an error, unless it does for a moment
// only.
func TestSlowStore(t *testing.T) {
	for maxRate, limits := range map[float64][2]time.Duration{
		0:  {190 * time.Millisecond, 250 * time.Millisecond},
		50: {90 * time.Millisecond, 110 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) { useSlowStore(t, maxRate, limits[0], limits[1]) })
	}
}

func useSlowStore(t *testing.T, maxRate float64, fast, slow time.Duration) {
	var recoveries atomic.Int64
	var faults faultLog
	var store slowStore
	shared := newFleet(t, &store, fleet.Config{MaxRate: maxRate, OnError: faults.add, OnRecovered: func() { recoveries.Add(1) }})
	defer shared.Close()
	tr := &awsretry.Transport{Base: respond(http.StatusOK, 0), Mode: awsretry.Adaptive, Shared: shared}
	for _, step := range []struct {
		takes              []time.Duration
		slow               bool
		faults, recoveries int64 // so far
	}{
		{[]time.Duration{fast}, false, 0, 0},
		{[]time.Duration{slow, fast, slow}, false, 0, 0},
		{[]time.Duration{slow}, true, 1, 0},
		{[]time.Duration{fast}, false, 1, 1},
	} {
		store.takes.Store(&step.takes)
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_ = call(ctx, tr, host) // with MaxRate it may get no slot
			<-ctx.Done()
			cancel()
		}
		got, all := stateOf(tr).Fleet.Slow, faults.all()
		if got != step.slow || int64(len(all)) != step.faults || recoveries.Load() != step.recoveries {
			t.Errorf("MaxRate %g, %+v: slow is %v, %q, OnRecovered was called %d times", maxRate, step, got, all, recoveries.Load())
		}
	}
	want := fmt.Sprintf("took %v to respond, and Config.Lease is 400ms; it must be more than", slow)
	if got := faults.all(); len(got) != 1 || !strings.Contains(got[0], want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A capacity that the store cannot count is an error, and the Transport works
// alone.
func TestHugeCapacity(t *testing.T) {
	alone(t, func(protocol.Request) ([]string, error) { return reply(nil), nil }, func(o *only) {
		o.transport.Quota.Capacity = 1e9 + 1
		o.sendFor(time.Second)
		got := strings.Join(o.faults.all(), "\n")
		if !strings.Contains(got, "Quota.Capacity is 1000000001") || o.evals.Load() > 0 {
			o.Errorf("the errors are %q after %d renewals", got, o.evals.Load())
		}
	})
}

// A failing store gets six renewals in the first lease and then about two per lease,
// as a working one does, also while retries are refused.
func TestFailingStoreIsLeftAlone(t *testing.T) {
	alone(t, func(protocol.Request) ([]string, error) { return nil, errBoom }, func(o *only) {
		o.base.status.Store(http.StatusServiceUnavailable)
		o.transport.Quota.Capacity = 5
		o.sendFor(10 * time.Second)
		if n := o.evals.Load(); n < 50 || n > 65 {
			o.Errorf("the store was asked %d times in 25 leases", n)
		}
	})
}

// Eval's context ends after two leases, and requests do not wait for it. Close
// returns within a second, and no goroutine is left when Eval has returned.
func TestEvalHangs(t *testing.T) {
	for _, late := range []time.Duration{0, time.Hour} { // than its context ends
		synctest.Test(t, func(t *testing.T) {
			var calls, running, most, longest atomic.Int64
			shared := newFleet(t, clientFunc(func(ctx context.Context, _ string, _ protocol.Request) ([]string, error) {
				calls.Add(1)
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				start := time.Now()
				<-ctx.Done()
				longest.Store(max(longest.Load(), int64(time.Since(start))))
				time.Sleep(late)
				return reply(nil), ctx.Err()
			}), fleet.Config{})
			tr := &awsretry.Transport{Base: respond(200, delay), Mode: awsretry.Adaptive, Shared: shared}
			for range 1000 {
				if took := send(t, tr); took != delay {
					t.Fatalf("a request took %v", took)
				}
			}
			start := time.Now()
			err := shared.Close()
			if took := time.Since(start); took > time.Second || (late > 0) != (err != nil) {
				t.Errorf("Close returned %v after %v", err, took)
			}
			if most.Load() != 1 || longest.Load() > int64(900*time.Millisecond) || calls.Load() > 10*10 {
				t.Errorf("%d calls, %d at once, the longest context %v", calls.Load(), most.Load(), time.Duration(longest.Load()))
			}
			time.Sleep(late) // and all goroutines end
		})
	}
}

// Outcomes from a long failure do not count as recent.
func TestOldOutcomesAreDropped(t *testing.T) {
	var failing atomic.Bool
	var most atomic.Int64
	alone(t, func(r protocol.Request) ([]string, error) {
		if failing.Load() {
			return nil, errBoom
		}
		most.Store(max(most.Load(), int64(r.Sent)))
		return reply(nil), nil
	}, func(o *only) {
		o.sendFor(5 * time.Second) // 100 requests a second
		failing.Store(true)
		o.sendFor(20 * time.Second)
		failing.Store(false)
		o.sendFor(5 * time.Second)
		if n := most.Load(); n > 100 || n == 0 {
			o.Errorf("a renewal tells of %d outcomes, more than of half a second", n)
		}
	})
}

// A process asks for the retry tokens of a few retries at a time, however many
// were refused.
func TestGrantsAreBounded(t *testing.T) {
	most := 0
	alone(t, func(r protocol.Request) ([]string, error) {
		most = max(most, r.Asked)
		return reply(func(got *protocol.Reply) { got.Tokens = float64(r.Asked) }), nil
	}, func(o *only) {
		o.base.status.Store(http.StatusServiceUnavailable)
		o.transport.MaxAttempts = 10
		for range 500 {
			send(o, o.transport)
		}
		synctest.Wait() // for a renewal at this time, which writes most
		if most != 5*float {
			o.Errorf("a renewal asks for %d tokens, want at most %d", most, 5*float)
		}
	})
}

// A process joins while a retry waits for more tokens than it has left: it gives up
// these, and the retry gets those of the fleet.
func TestJoinWithALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newFleet(t, clientFunc(func(_ context.Context, _ string, r protocol.Request) ([]string, error) {
			time.Sleep(200 * time.Millisecond)
			return reply(func(p *protocol.Reply) { p.Tokens = float64(r.Asked) }), nil
		}), fleet.Config{})
		tr := &awsretry.Transport{
			Base: respond(http.StatusServiceUnavailable, 0), MaxAttempts: 2, Shared: shared,
			Quota:   awsretry.QuotaConfig{RetryCost: 7, TimeoutCost: 10, Share: 0.2}, // 10 tokens at first
			Backoff: awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return time.Second }),
		}
		var calls sync.WaitGroup
		for range 2 {
			calls.Go(func() { send(t, tr) })
			synctest.Wait()
		}
		calls.Wait()
		if n := tr.Base.(*responder).attempts.Load(); n != 4 {
			t.Errorf("%d attempts, want 4", n)
		}
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
	})
}
