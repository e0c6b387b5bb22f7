package fleet_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
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

// A window allows requests per minute, and says in each response what is left.
type window struct {
	quota int

	mu        sync.Mutex
	end       time.Time
	left      int
	refused   int
	responses int
}

func (w *window) RoundTrip(req *http.Request) (*http.Response, error) {
	time.Sleep(delay)
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !now.Before(w.end) {
		w.end, w.left = now.Truncate(time.Minute).Add(time.Minute), w.quota
	}
	status := http.StatusOK
	if w.responses++; w.left == 0 {
		status = http.StatusTooManyRequests
		w.refused++
	} else {
		w.left--
	}
	resp, err := respond(status, 0).RoundTrip(req)
	resp.Header.Set("RateLimit", fmt.Sprintf(`"default";r=%d;t=%d`, w.left, int(w.end.Sub(now).Seconds())+1))
	resp.Header.Set("RateLimit-Policy", `"default";q=`+strconv.Itoa(w.quota)+`;w=60`)
	return resp, err
}

// limited returns a Transport that waits for the limits that its service
// announces.
func limited(t *testing.T, base http.RoundTripper, store fleet.Client) *awsretry.Transport {
	tr := &awsretry.Transport{
		Base: base, Mode: awsretry.Adaptive, MaxAttempts: 1,
		RateLimit: awsretry.RateLimitConfig{Pacing: awsretry.ScaledPacing, Limits: awsretry.ReadLimits},
	}
	if store != nil {
		shared := newFleet(t, store, fleet.Config{})
		t.Cleanup(func() { shared.Close() })
		tr.Shared = shared
	}
	return tr
}

// callers calls with that many callers for a while.
func callers(t *testing.T, tr *awsretry.Transport, n int, d time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				if call(ctx, tr, host) != nil {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	all.Wait()
}

// A process that has sent nothing for a while knows from the fleet what is left
// of a quota, which others have nearly used up.
func TestAnnouncedLimitsAreShared(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared %v", shared), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var store fleet.Client
				if shared {
					store = &fleettest.Store{Latency: time.Millisecond}
				}
				service := &window{quota: 600}
				first, second := limited(t, service, store), limited(t, service, store)
				if err := call(t.Context(), second, host); err != nil { // the whole quota is there
					t.Fatal(err)
				}
				callers(t, first, 20, 40*time.Second)
				state, _ := second.State(host)
				var left float64
				if len(state.Limits) > 0 {
					left = state.Limits[0].Remaining
				}
				service.mu.Lock()
				actual, refused := float64(service.left), service.refused
				service.mu.Unlock()
				if knows := left-actual < 30; knows != shared || actual > 300 {
					t.Errorf("the second process expects %v, and %v are left", left, actual)
				}
				callers(t, second, 300, 10*time.Second)
				if got := service.refused - refused; (got > 5) == shared {
					t.Errorf("%d of %d requests were refused", got, service.responses)
				}
			})
		})
	}
}

// Limits from a store that make no sense are reported, and not used.
func TestHostileLimits(t *testing.T) {
	for _, said := range []string{
		"x", "{", `{"Limits":3}`, `{"Limits":[{"remaining":-1}]}`, `{"Limits":[{"remaining":1e400}]}`,
		`{"Limits":[{"quota":-1,"remaining":1}]}`, `{"Limits":[{"remaining":1,"reset":9223372036854775808}]}`,
		strings.Repeat(" ", 5000),
	} {
		synctest.Test(t, func(t *testing.T) {
			var faults faultLog
			store := clientFunc(func(context.Context, string, protocol.Request) ([]string, error) {
				return reply(func(r *protocol.Reply) { r.Said = said }), nil
			})
			shared := newFleet(t, store, fleet.Config{OnError: faults.add})
			defer shared.Close()
			tr := limited(t, &window{quota: 600}, nil)
			tr.Shared = shared
			for range 3 {
				if err := call(t.Context(), tr, host); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
			}
			if state, _ := tr.State(host); len(faults.all()) == 0 || len(state.Limits) != 1 || state.Limits[0].Remaining != 597 {
				t.Errorf("%.40q: %q, %+v", said, faults.all(), state.Limits)
			}
		})
	}
}

// Of hostile limits that are well-formed, none panics or stops the requests for
// good.
func TestWrongLimits(t *testing.T) {
	for _, said := range []string{
		`{"Limits":[{"name":"default","quota":600,"remaining":0,"reset":31536000000000000}]}`,
		`{"Limits":[{"name":"other","quota":600,"remaining":0,"reset":86400000000000}]}`,
		`{"Limits":[{"name":"default","remaining":1e308,"reset":0}],"sent":-9223372036854775808}`,
		`{"Limits":[{"name":"` + strings.Repeat("n", 3000) + `","remaining":0,"reset":-5}]}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			store := clientFunc(func(context.Context, string, protocol.Request) ([]string, error) {
				return reply(func(r *protocol.Reply) { r.Said = said }), nil
			})
			shared := newFleet(t, store, fleet.Config{})
			defer shared.Close()
			service := &window{quota: 600}
			tr := limited(t, service, nil)
			tr.Shared = shared
			callers(t, tr, 4, 5*time.Minute)
			if service.responses < 1000 {
				t.Errorf("%.60q: %d requests in five minutes", said, service.responses)
			}
		})
	}
}
