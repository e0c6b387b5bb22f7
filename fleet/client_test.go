package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
)

// A clientFunc is a Client whose script is Go.
type clientFunc func(ctx context.Context, args []string) ([]string, error)

func (f clientFunc) Eval(ctx context.Context, _ string, _, args []string) ([]string, error) {
	return f(ctx, args)
}

// The places of the script's values.
const (
	replyRate    = 3
	replyShare   = 4
	replyMembers = 5
	replyLeader  = 6
	replyTokens  = 8
	replyLeft    = 9
	replyGate    = 10

	replyAccepted = 11

	argID       = 0
	argSeedRate = 3
	argRate     = 11
	argWanted   = 13
	argReturned = 16
	argAsked    = 17
	argLeaving  = 19
	argGate     = 20
	argEpoch    = 28
)

// reply returns what the script returns, where nothing is limited, with some
// values changed.
func reply(values map[int]string) []string {
	r := strings.Fields("epoch 0 1 0 0 1 0 0 0 100 0 0 0 0 0 0 0 1 0 2 1")
	for i, value := range values {
		r[i] = value
	}
	return r
}

// respond is a Base whose responses have a status and come after a delay.
func respond(status int, delay time.Duration) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		time.Sleep(delay)
		return &http.Response{
			StatusCode: status, Header: make(http.Header), Body: io.NopCloser(strings.NewReader("")), Request: req,
		}, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// send makes one request and returns how long it took.
func send(t testing.TB, tr *awsretry.Transport) time.Duration {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://service.test/", nil)
	start := time.Now()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return time.Since(start)
}

// faultLog collects the errors that OnError is called with.
type faultLog struct {
	mu     sync.Mutex
	faults []string
}

func (l *faultLog) add(_ string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, err.Error())
}

func (l *faultLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.faults...)
}

const delay = 10 * time.Millisecond // of a response

// Whatever the store says, requests go on, at local limits if it is not valid,
// and OnError is called once.
func TestBadReplies(t *testing.T) {
	set := func(i int, value string) func(args []string) ([]string, error) {
		return func([]string) ([]string, error) { return reply(map[int]string{i: value}), nil }
	}
	for name, test := range map[string]struct {
		eval func(args []string) ([]string, error)
		want string // of the error
	}{
		"nothing":    {func([]string) ([]string, error) { return nil, nil }, "0 values"},
		"too few":    {func([]string) ([]string, error) { return reply(nil)[1:], nil }, "20 values"},
		"too many":   {func([]string) ([]string, error) { return append(reply(nil), "1"), nil }, "22 values"},
		"very many":  {func([]string) ([]string, error) { return make([]string, 1<<20), nil }, "1048576 values"},
		"error":      {func([]string) ([]string, error) { return nil, errors.New("boom") }, "boom"},
		"panic":      {func([]string) ([]string, error) { panic("boom") }, "panicked: boom"},
		"empty":      {set(replyRate, ""), `"" for rate`},
		"text":       {set(replyRate, "abc"), `"abc" for rate`},
		"long text":  {set(replyRate, strings.Repeat("9", 1<<20)), "for rate"},
		"NaN":        {set(replyRate, "nan"), "for rate"},
		"infinite":   {set(replyRate, "inf"), "for rate"},
		"huge":       {set(replyRate, "1e308"), "for rate"},
		"negative":   {set(replyRate, "-1"), "for rate"},
		"huge grant": {set(replyShare, "1e8"), "granted a rate of 1e+08"},
		"no share":   {set(replyRate, "100"), "granted a rate of 0; that of 1 processes is 100"},
		"tiny share": {func([]string) ([]string, error) {
			return reply(map[int]string{replyRate: "100", replyShare: "1e-300"}), nil
		}, "granted a rate of 1e-300"},
		"huge tokens":  {set(replyTokens, "1000000"), "granted 1000000 retry tokens"},
		"huge members": {set(replyMembers, "1e18"), "for members"},
		"long gate":    {set(replyGate, "1e15"), "for Retry-After"},
		"huge epoch":   {set(0, strings.Repeat("e", 1000)), "an epoch of 1000 bytes"},
		"huge clock":   {set(1, "1e300"), "for now"},
		"huge sum":     {set(11, "1e16"), "for sum"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var faults faultLog
				shared := fleet.New(clientFunc(func(_ context.Context, args []string) ([]string, error) {
					return test.eval(args)
				}), fleet.Config{OnError: faults.add})
				tr := &awsretry.Transport{
					Base:            respond(200, delay),
					Mode:            awsretry.Adaptive,
					Shared:          shared,
					ShareRetryAfter: true,
				}
				for range 200 {
					if took := send(t, tr); took != delay {
						t.Fatalf("a request took %v", took)
					}
				}
				if got := faults.all(); len(got) != 1 || !strings.Contains(got[0], test.want) || len(got[0]) > 500 {
					t.Errorf("OnError was called with %.1000q; want one error with %q", got, test.want)
				}
				if state, _ := tr.State("service.test"); state.Leased || state.Tokens != 500 || state.Limited {
					t.Errorf("the state is %+v", state)
				}
				if err := shared.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A store that has far more outcomes than there can be is an error for the
// process that leads.
func TestOutcomesThatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		total, highest := 0.0, 0.0
		var faults faultLog
		shared := fleet.New(clientFunc(func(_ context.Context, args []string) ([]string, error) {
			rate, _ := strconv.ParseFloat(args[argRate], 64)
			highest = max(highest, rate)
			total += 1e9
			return reply(map[int]string{
				replyRate: "100", replyShare: "100", replyLeader: "1", replyAccepted: fmt.Sprint(total),
			}), nil
		}), fleet.Config{OnError: faults.add})
		defer shared.Close()
		tr := &awsretry.Transport{Base: respond(200, delay), Mode: awsretry.Adaptive, Shared: shared}
		send(t, tr)
		time.Sleep(10 * time.Second)
		runtime.KeepAlive(tr)
		if got := faults.all(); len(got) == 0 || !strings.Contains(got[0], "1e+09 new outcomes") || highest > 1e6 {
			t.Errorf("the errors are %q, and the highest rate %g", got, highest)
		}
	})
}

// OnError is called once for each change from success to failure.
func TestOnErrorOncePerChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var faults faultLog
		start := time.Now()
		shared := fleet.New(clientFunc(func(context.Context, []string) ([]string, error) {
			if int(time.Since(start)/(2*time.Second))%2 == 1 {
				return nil, errors.New("boom")
			}
			return reply(nil), nil
		}), fleet.Config{OnError: faults.add})
		tr := &awsretry.Transport{Base: respond(200, delay), Shared: shared}
		for time.Since(start) < 19*time.Second {
			send(t, tr) // it does not become idle
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(faults.all()); n != 5 {
			t.Errorf("OnError was called %d times; the store failed 5 times", n)
		}
		shared.Close()
	})
}

// A store that fails is asked once a lease, also while retries are refused.
func TestFailingStoreIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		shared := fleet.New(clientFunc(func(context.Context, []string) ([]string, error) {
			calls.Add(1)
			return nil, errors.New("boom")
		}), fleet.Config{})
		defer shared.Close()
		tr := &awsretry.Transport{
			Base: respond(503, delay), Shared: shared, Quota: awsretry.QuotaConfig{Capacity: 5},
			Backoff: awsretry.Decorrelated{Initial: time.Millisecond, Max: time.Millisecond},
		}
		for start := time.Now(); time.Since(start) < 10*time.Second; {
			send(t, tr)
		}
		if n := calls.Load(); n < 20 || n > 30 {
			t.Errorf("the store was asked %d times in 25 leases", n)
		}
	})
}

// Eval's context ends after a lease, and requests do not wait for it. Close
// returns within a second, and no goroutine is left when Eval has returned.
func TestEvalHangs(t *testing.T) {
	for name, late := range map[string]time.Duration{"until its context ends": 0, "longer": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls, running, most, longest atomic.Int64
				shared := fleet.New(clientFunc(func(ctx context.Context, _ []string) ([]string, error) {
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
				if most.Load() != 1 || longest.Load() > int64(500*time.Millisecond) || calls.Load() > 10*10 {
					t.Errorf(
						"%d calls, %d at once, the longest context %v",
						calls.Load(),
						most.Load(),
						time.Duration(longest.Load()),
					)
				}
				time.Sleep(late) // and all goroutines end
			})
		})
	}
}

// A process with a small part of the rate does not wait at that rate when the
// store has gone.
func TestLeaseEndsWithoutOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone atomic.Bool
		shared := fleet.New(clientFunc(func(context.Context, []string) ([]string, error) {
			if gone.Load() {
				return nil, errors.New("boom")
			}
			return reply(map[int]string{replyRate: "100", replyShare: "0.1", replyMembers: "5"}), nil
		}), fleet.Config{})
		defer shared.Close()
		tr := &awsretry.Transport{Base: respond(200, delay), Mode: awsretry.Adaptive, Shared: shared}
		send(t, tr)
		time.Sleep(time.Second)
		send(t, tr) // what a pause saved up
		gone.Store(true)
		// The rate is 20/s from the end of the lease on.
		if took := send(t, tr); took > 400*time.Millisecond+50*time.Millisecond+delay {
			t.Errorf("a request took %v", took)
		}
	})
}

// Outcomes of a long failure are not the present's.
func TestOldOutcomesAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		var most atomic.Int64
		shared := fleet.New(clientFunc(func(_ context.Context, args []string) ([]string, error) {
			if failing.Load() {
				return nil, errors.New("boom")
			}
			accepted, _ := strconv.ParseInt(args[5], 10, 64)
			most.Store(max(most.Load(), accepted))
			return reply(nil), nil
		}), fleet.Config{})
		defer shared.Close()
		tr := &awsretry.Transport{Base: respond(200, delay), Mode: awsretry.Adaptive, Shared: shared}
		for i := range 3000 { // 100 a second
			failing.Store(i > 500 && i < 2500)
			send(t, tr)
		}
		if n := most.Load(); n > 100 || n == 0 {
			t.Errorf("a renewal tells of %d outcomes, more than of half a second", n)
		}
	})
}

// The members of a Transport that nobody has any more end.
func TestTransportIsDropped(t *testing.T) {
	var left atomic.Bool
	shared := fleet.New(clientFunc(func(_ context.Context, args []string) ([]string, error) {
		if args[argLeaving] == "1" {
			left.Store(true)
		}
		return reply(nil), nil
	}), fleet.Config{Lease: 50 * time.Millisecond})
	defer shared.Close()
	tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared}
	send(t, tr)
	time.Sleep(100 * time.Millisecond)
	runtime.KeepAlive(tr)
	eventually(t, "the member leaves", func() bool {
		runtime.GC()
		return left.Load()
	})
}

// A process cannot spend more retry tokens than it asked for, whatever the
// store has.
func TestGrantsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewals, asked atomic.Int64 // a renewal may be under way at the end
		shared := fleet.New(clientFunc(func(_ context.Context, args []string) ([]string, error) {
			n, _ := strconv.ParseInt(args[argAsked], 10, 64)
			asked.Store(max(asked.Load(), n))
			renewals.Add(1)
			return reply(map[int]string{
				replyRate: "1e9", replyShare: "1e9", replyTokens: args[argAsked], replyLeft: "2147483647",
			}), nil
		}), fleet.Config{})
		attempts := int64(0)
		base := respond(503, delay)
		tr := &awsretry.Transport{
			Base: roundTripper(func(req *http.Request) (*http.Response, error) {
				attempts++
				return base.RoundTrip(req)
			}),
			Mode: awsretry.Adaptive, Shared: shared, MaxAttempts: 10,
			Backoff: awsretry.Decorrelated{Initial: time.Millisecond, Max: time.Millisecond},
		}
		const requests = 500
		for range requests {
			send(t, tr)
		}
		const cost = 5
		retries, n, most := attempts-requests, renewals.Load(), asked.Load()
		if retries > (500+50*n)/cost || most > 50 || n == 0 {
			t.Errorf("%d retries in %d renewals, which asked for at most %d tokens", retries, n, most)
		}
		shared.Close()
	})
}

// The member of a partition that is dropped leaves at once, however long the
// lease is.
func TestDroppedPartitionLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left atomic.Bool
		shared := fleet.New(clientFunc(func(_ context.Context, args []string) ([]string, error) {
			if args[argLeaving] == "1" {
				left.Store(true)
			}
			return reply(nil), nil
		}), fleet.Config{Lease: time.Minute})
		defer shared.Close()
		tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared, MaxPartitions: 1}
		send(t, tr)
		time.Sleep(time.Second)
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://another.test/", nil)
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		synctest.Wait()
		if !left.Load() {
			t.Error("the member has not left")
		}
	})
}
