package fleet_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
)

// A spy hears of each renewal that succeeds.
type spy struct {
	fleet.Client
	hear func(args, reply []string)
}

func (s spy) Eval(ctx context.Context, script string, keys, args []string) ([]string, error) {
	reply, err := s.Client.Eval(ctx, script, keys, args)
	if err == nil {
		s.hear(args, reply)
	}
	return reply, err
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
				var mu sync.Mutex
				leaders := make(map[string]bool)
				store := spy{&fleettest.Store{Latency: time.Millisecond}, func(args, reply []string) {
					mu.Lock()
					defer mu.Unlock()
					if reply[replyLeader] == "1" {
						leaders[args[argID]] = true
					}
				}}
				var faults faultLog
				shared := fleet.New(store, fleet.Config{OnError: faults.add})
				ctx, cancel := context.WithCancel(t.Context())
				service := newLimited()
				var callers sync.WaitGroup
				var two [2]*process
				for i, pacing := range []awsretry.Pacing{awsretry.ScaledPacing, test.second} {
					p := &process{shared: shared, transport: &awsretry.Transport{
						Base: service, Mode: awsretry.Adaptive, Shared: shared, RateLimit: awsretry.RateLimitConfig{Pacing: pacing},
					}}
					two[i] = p
					for range 2 {
						callers.Go(func() {
							for ctx.Err() == nil {
								p.call(ctx)
							}
						})
					}
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(10 * time.Second)
				if s := two[0].state(); s.Members != test.members || len(leaders) != 1 {
					t.Errorf("%d members, and %d of them led; want %d and 1", s.Members, len(leaders), test.members)
				}
				if got := strings.Join(faults.all(), "\n"); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
					t.Errorf("the errors are %q, want %q", got, test.want)
				}
				cancel()
				callers.Wait()
				shared.Close()
			})
		})
	}
}
