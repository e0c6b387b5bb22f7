package fleet_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
	"example.com/awsretry/fleet/internal/protocol"
)

// The first processes' settings stay while they are there, and for a minute
// after that. Others get an error and work alone, also after an outage of the
// store that is shorter.
func TestOtherSettings(t *testing.T) {
	adaptive := func(p awsretry.Pacing) *awsretry.Transport {
		return &awsretry.Transport{Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{Pacing: p}}
	}
	lowest := func(rate float64) *awsretry.Transport {
		return &awsretry.Transport{Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{MinFillRate: rate}}
	}
	patient := adaptive(awsretry.CubicPacing)
	patient.RateLimit.MaxWait, patient.RateLimit.Limits = time.Second, awsretry.ReadLimits
	for name, test := range map[string]struct {
		first, second *awsretry.Transport
		lease         time.Duration // of the second; the first has 400 ms
		want          string        // of the second's error; "" if they share
	}{
		"lease": {
			&awsretry.Transport{}, &awsretry.Transport{}, 800 * time.Millisecond,
			"have the settings Lease:400ms; this one has Lease:800ms",
		},
		"capacity": {
			&awsretry.Transport{}, &awsretry.Transport{Quota: awsretry.QuotaConfig{Capacity: 7}}, 0,
			"have the settings Capacity:500; this one has Capacity:7",
		},
		"no quota": {
			&awsretry.Transport{}, &awsretry.Transport{Quota: awsretry.QuotaConfig{Capacity: -1}, ShareRetryAfter: true}, 0,
			"this one has Lease:400ms no quota",
		},
		"pacing": {
			adaptive(awsretry.CubicPacing), adaptive(awsretry.ScaledPacing), 0,
			"have the pacing cubic; this one has scaled",
		},
		"lowest rate": {
			adaptive(awsretry.CubicPacing), lowest(300), 0, "have the pacing cubic; this one has cubic MinFillRate:300",
		},
		"the same, by default": {adaptive(awsretry.CubicPacing), lowest(0.5), 0, ""},
		"cost": {
			&awsretry.Transport{}, &awsretry.Transport{Quota: awsretry.QuotaConfig{TimeoutCost: 1}}, 0,
			"have the settings Lease:400ms Capacity:500; this one has Lease:400ms Capacity:500 TimeoutCost:1",
		},
		"patience": {adaptive(awsretry.CubicPacing), patient, 0, ""},                // each process may have its own
		"mode":     {&awsretry.Transport{}, adaptive(awsretry.ScaledPacing), 0, ""}, // they share the retry tokens
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &fleettest.Store{Latency: time.Millisecond}
				var faults faultLog
				start := func(tr *awsretry.Transport, c fleet.Config) *fleet.Fleet {
					shared := newFleet(t, store, c)
					tr.Base, tr.Shared = respond(200, 0), shared
					send(t, tr)
					time.Sleep(time.Second)
					return shared
				}
				first := start(test.first, fleet.Config{})
				second := start(test.second, fleet.Config{Lease: test.lease, OnError: faults.add})
				defer second.Close()
				check := func(when string, wantFirst, wantSecond bool) {
					t.Helper()
					for range 25 { // they are not idle
						send(t, test.first)
						send(t, test.second)
						time.Sleep(200 * time.Millisecond)
					}
					if a, b := stateOf(test.first).Leased, stateOf(test.second).Leased; a != wantFirst || b != wantSecond {
						t.Errorf("%s the first has a lease: %v, the second: %v", when, a, b)
					}
				}
				shares := test.want == ""
				check("at the start", true, shares)
				if got := strings.Join(faults.all(), "\n"); !strings.Contains(got, test.want) || (got == "") != shares {
					t.Errorf("the errors are %q; want %q", got, test.want)
				}
				for range 2 {
					store.Refuse(errors.New("an outage"))
					time.Sleep(5 * time.Second)
					store.Refuse(nil)
					time.Sleep(time.Second)
					check("after an outage", true, shares)
				}
				first.Close()
				time.Sleep(45 * time.Second)
				check("before a minute of silence", false, shares)
				time.Sleep(15 * time.Second)
				check("when the first has gone", false, true)
				runtime.KeepAlive(test)
			})
		})
	}
}

// Two Transports with one Fleet are two members: one of them leads, and both
// must have the same pacing.
func TestTransportsOfOneFleet(t *testing.T) {
	for name, test := range map[string]struct {
		second  awsretry.Pacing
		members int
		want    string // of the errors
	}{
		"same pacing":    {awsretry.ScaledPacing, 2, ""},
		"another pacing": {awsretry.CubicPacing, 1, "have the pacing scaled; this one has cubic"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var faults faultLog
				var mu sync.Mutex
				leaders := make(map[string]bool)
				store := &fleettest.Store{Latency: time.Millisecond}
				shared := newFleet(t, spy{store, func(r protocol.Request, got protocol.Reply) {
					mu.Lock()
					defer mu.Unlock()
					if got.Leader {
						leaders[r.ID] = true
					}
				}}, fleet.Config{OnError: faults.add})
				service := &service{rate: 100, burst: 20}
				var transports []*awsretry.Transport
				for _, pacing := range []awsretry.Pacing{awsretry.ScaledPacing, test.second} {
					tr := &awsretry.Transport{
						Base: service, Mode: awsretry.Adaptive, Shared: shared, RateLimit: awsretry.RateLimitConfig{Pacing: pacing},
					}
					transports = append(transports, tr)
					send(t, tr)
				}
				for range 100 {
					for _, tr := range transports {
						send(t, tr)
					}
				}
				shared.Close()
				if s := stateOf(transports[0]); s.Members != test.members || len(leaders) != 1 {
					t.Errorf("%d members, and %d of them led; want %d and 1", s.Members, len(leaders), test.members)
				}
				if got := strings.Join(faults.all(), "\n"); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
					t.Errorf("the errors are %q, want %q", got, test.want)
				}
			})
		})
	}
}

// A spy hears of each renewal that succeeds.
type spy struct {
	fleet.Client
	hear func(protocol.Request, protocol.Reply)
}

func (s spy) Eval(ctx context.Context, script string, keys, args []string) ([]string, error) {
	reply, err := s.Client.Eval(ctx, script, keys, args)
	if err == nil {
		s.hear(read[protocol.Request](args), read[protocol.Reply](reply))
	}
	return reply, err
}
