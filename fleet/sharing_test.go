package fleet_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/storetest"
)

// The tests of this file use a real server for a second or two each, and longer
// on a busy machine. The figures of a fleet are measured by package measure, and
// tested in virtual time.

// eventually fails the test if the condition does not hold within a minute.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute: " + what)
		}
	}
}

// Two processes get the same rate, and when one leaves, the other gets all.
func TestTwoShareARate(t *testing.T) {
	addr := storetest.Start(t).Addr
	service := &service{rate: 50, burst: 5}
	var two [2]*process
	for i := range two {
		two[i] = startProcess(fleet.Valkey(storetest.Connect(t, addr)), service, awsretry.ScaledPacing, 4)
	}
	defer two[0].leave()
	leave := two[1].leave
	defer func() { leave() }()
	near := func(x, y float64) bool { return x > 0.85*y && x < 1.15*y }
	eventually(t, "each of two has half of the rate", func() bool {
		a, b := two[0].state(), two[1].state()
		return a.Members == 2 && b.Members == 2 && a.FleetRate > 10 &&
			near(a.SendRate, a.FleetRate/2) && near(b.SendRate, b.FleetRate/2)
	})
	before := [2]int64{two[0].good.Load(), two[1].good.Load()}
	eventually(t, "both make calls", func() bool {
		return two[0].good.Load() >= before[0]+5 && two[1].good.Load() >= before[1]+5
	})
	leave()
	leave = func() {}
	eventually(t, "the other one has all of the rate", func() bool {
		s := two[0].state()
		return s.Members == 1 && near(s.SendRate, s.FleetRate)
	})
}

// A scripted service responds with one status, which can be changed.
type scripted struct {
	status   atomic.Int64
	header   http.Header
	attempts atomic.Int64
}

func (s *scripted) RoundTrip(req *http.Request) (*http.Response, error) {
	s.attempts.Add(1)
	return &http.Response{
		StatusCode: int(s.status.Load()), Header: s.header.Clone(), Body: io.NopCloser(strings.NewReader("")), Request: req,
	}, nil
}

// joined returns two Transports that share through a real server, after both
// have joined.
func joined(t *testing.T, service *scripted, configure func(*awsretry.Transport)) [2]*process {
	addr := storetest.Start(t).Addr
	service.status.Store(http.StatusOK)
	var two [2]*process
	for i := range two {
		p := new(process)
		p.shared = fleet.New(fleet.Valkey(storetest.Connect(t, addr)), fleet.Config{
			OnError: func(string, error) { p.failures.Add(1) },
		})
		p.transport = &awsretry.Transport{
			Base: service, Shared: p.shared, Backoff: awsretry.Exponential{Initial: time.Millisecond},
		}
		configure(p.transport)
		t.Cleanup(func() { p.shared.Close() })
		if !p.call(t.Context()) {
			t.Fatal("the first call failed")
		}
		two[i] = p
	}
	eventually(t, "both have joined", func() bool { return two[0].state().Members == 2 && two[1].state().Members == 2 })
	return two
}

func TestTwoShareRetryTokens(t *testing.T) {
	const capacity, cost = 100, 5
	service := new(scripted)
	two := joined(t, service, func(tr *awsretry.Transport) {
		tr.Quota = awsretry.QuotaConfig{Capacity: capacity, RetryCost: cost}
	})
	service.attempts.Store(0)
	service.status.Store(http.StatusInternalServerError)
	calls, retries := int64(0), int64(0)
	eventually(t, "most of the retries are made", func() bool {
		for _, p := range two {
			p.call(t.Context())
			calls++
		}
		retries = service.attempts.Load() - calls
		failed := two[0].failures.Load()+two[1].failures.Load() > 0 // on a busy machine; tokens were lost then
		return retries >= capacity/cost*3/4 || failed
	})
	for range 50 { // the retries end, whatever is called
		two[0].call(t.Context())
		two[1].call(t.Context())
		calls += 2
		time.Sleep(10 * time.Millisecond)
	}
	if retries = service.attempts.Load() - calls; retries > capacity/cost {
		t.Errorf("two processes made %d retries of %d tokens; they have %d tokens together", retries, cost, capacity)
	}
}

func TestRetryAfterReachesOthers(t *testing.T) {
	service := &scripted{header: make(http.Header)}
	two := joined(t, service, func(tr *awsretry.Transport) {
		tr.ShareRetryAfter, tr.MaxAttempts = true, 1
	})
	service.header.Set("Retry-After", "60")
	service.status.Store(http.StatusServiceUnavailable)
	two[0].call(t.Context())
	service.status.Store(http.StatusOK)
	service.header.Del("Retry-After")
	eventually(t, "the other process holds back", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/", nil)
		resp, err := two[1].transport.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		return errors.Is(err, awsretry.ErrRateLimited)
	})
}

// A switched client has no store until it is on.
type switched struct {
	fleet.Client
	on atomic.Bool
}

func (s *switched) Eval(ctx context.Context, script string, keys, args []string) ([]string, error) {
	if !s.on.Load() {
		return nil, errors.New("there is no store")
	}
	return s.Client.Eval(ctx, script, keys, args)
}

func TestAloneUntilThereIsAStore(t *testing.T) {
	client := &switched{Client: fleet.Valkey(storetest.Connect(t, storetest.Start(t).Addr))}
	service := &service{rate: 50, burst: 5}
	p := startProcess(client, service, awsretry.ScaledPacing, 2)
	defer p.leave()
	eventually(t, "calls are made without a store", func() bool { return p.good.Load() >= 10 })
	eventually(t, "a renewal fails", func() bool { return p.failures.Load() > 0 })
	if p.state().Leased || p.failures.Load() != 1 {
		t.Errorf("without a store: %+v, %d errors", p.state(), p.failures.Load())
	}
	client.on.Store(true)
	eventually(t, "the process has a lease", func() bool { return p.state().Leased })
}
