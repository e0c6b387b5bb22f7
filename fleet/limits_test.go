package fleet_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
	"example.com/awsretry/fleet/internal/protocol"
	"example.com/awsretry/internal/httpfake"
)

// A window allows requests per minute, and announces in each response how many are
// left.
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
	return httpfake.Response(req, status, http.NoBody,
		"RateLimit", fmt.Sprintf(`"default";r=%d;t=%d`, w.left, int(w.end.Sub(now).Seconds())+1),
		"RateLimit-Policy", fmt.Sprintf(`"default";q=%d;w=60`, w.quota)), nil
}

// limited returns a Transport that waits for the limits that its service
// announces.
func limited(base http.RoundTripper, shared *fleet.Fleet) *awsretry.Transport {
	return &awsretry.Transport{
		Base: base, Mode: awsretry.Adaptive, MaxAttempts: 1, Shared: shared,
		RateLimit: awsretry.RateLimitConfig{Pacing: awsretry.ScaledPacing, Limits: awsretry.ReadLimits},
	}
}

// callers makes calls for a while with that many callers.
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

// A process that has sent nothing for a while learns from the fleet how much is left
// of a quota that others have nearly used up.
func TestAnnouncedLimitsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, service := &fleettest.Store{Latency: time.Millisecond}, &window{quota: 600}
		var transports [2]*awsretry.Transport
		for i := range transports {
			shared := newFleet(t, store, fleet.Config{})
			defer shared.Close()
			transports[i] = limited(service, shared)
		}
		first, second := transports[0], transports[1]
		if err := call(t.Context(), second, host); err != nil { // the whole quota is there
			t.Fatal(err)
		}
		callers(t, first, 20, 40*time.Second)
		state := stateOf(second)
		service.mu.Lock()
		actual, refused := float64(service.left), service.refused
		service.mu.Unlock()
		if len(state.Limits) != 1 || state.Limits[0].Remaining-actual > 30 || actual > 300 {
			t.Errorf("the second process expects %+v, and %v are left", state.Limits, actual)
		}
		callers(t, second, 300, time.Second)
		if got := service.refused - refused; got > 5 {
			t.Errorf("%d of %d requests were refused", got, service.responses)
		}
	})
}

// Limits that were announced while the store failed reach the other processes
// afterwards.
func TestAnnouncedDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, service := &fleettest.Store{Latency: time.Millisecond}, &window{quota: 600}
		far := &link{Client: store}
		var transports []*awsretry.Transport
		for _, client := range []fleet.Client{far, store} {
			shared := newFleet(t, client, fleet.Config{})
			defer shared.Close()
			transports = append(transports, limited(service, shared))
			send(t, transports[len(transports)-1])
		}
		time.Sleep(time.Second)
		far.mode.Store(refuses)
		callers(t, transports[0], 20, time.Second)
		send(t, transports[0]) // alone, so that its response has the least that remains
		far.mode.Store(works)
		time.Sleep(10 * time.Second)
		service.mu.Lock()
		defer service.mu.Unlock()
		if l := stateOf(transports[1]).Limits; service.left > 500 || len(l) != 1 || l[0].Remaining != float64(service.left) {
			t.Errorf("the second process expects %+v, and %d are left", l, service.left)
		}
	})
}

// Invalid limits from a store are reported, and not used.
func TestHostileLimits(t *testing.T) {
	for _, said := range []string{
		"x", `{"Limits":[{"remaining":-1}]}`, `{"Limits":[{"quota":-1,"remaining":1}]}`, strings.Repeat(" ", 4097),
	} {
		alone(t, says(said), func(o *only) {
			o.transport = limited(&window{quota: 600}, o.shared)
			for range 3 {
				send(o, o.transport)
				time.Sleep(time.Second)
			}
			state := stateOf(o.transport)
			if len(o.faults.all()) == 0 || len(state.Limits) != 1 || state.Limits[0].Remaining != 597 {
				o.Errorf("%.40q: %q, %+v", said, o.faults.all(), state.Limits)
			}
		})
	}
}

// No hostile limits that are well-formed cause a panic or stop the requests for good.
func TestWrongLimits(t *testing.T) {
	for _, said := range []string{
		`{"Limits":[{"name":"default","quota":600,"remaining":0,"reset":31536000000000000}]}`,
		`{"Limits":[{"name":"default","remaining":1e308,"reset":0}],"sent":-9223372036854775808}`,
		`{"Limits":[{"name":"` + strings.Repeat("n", 3000) + `","remaining":0,"reset":-5}]}`,
	} {
		alone(t, says(said), func(o *only) {
			service := &window{quota: 600}
			o.transport = limited(service, o.shared)
			callers(o.T, o.transport, 4, 2*time.Minute)
			if service.responses < 400 {
				o.Errorf("%.60q: %d requests in two minutes", said, service.responses)
			}
		})
	}
}

// says returns a store whose replies have text as limits.
func says(text string) func(protocol.Request) ([]string, error) {
	return func(protocol.Request) ([]string, error) {
		return reply(func(r *protocol.Reply) { r.Said = text }), nil
	}
}
