package limits_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/worlds"
)

// A route is a part of a service, and its callers. Limits with the same name are one.
type route struct {
	limits         map[string]func() quota
	callers        int
	latency, pause time.Duration // between two calls of a caller, on average
	ample          bool          // the callers do not reach the limits
}

func drawRoute(r *rand.Rand, name string) route {
	drawn := route{
		callers: worlds.Pick(r, 1, 2, 8), latency: worlds.Pick(r, second/5, second/2), pause: worlds.Pick(r, 0, second/2),
	}
	length := worlds.Pick(r, 10*second, 20*second)
	demand := float64(drawn.callers) * length.Seconds() / (drawn.latency + drawn.pause).Seconds()
	n := max(int(demand*worlds.Pick(r, .2, .5, 4)), 20)
	drawn.ample = demand < float64(n)/2
	drawn.limits = map[string]func() quota{name: worlds.Pick(r,
		perWindow(float64(n), length), inAny(n, length, false), refilling(float64(n), float64(n)/length.Seconds()))}
	return drawn
}

// outcomes are those of one route.
type outcomes struct{ served, throttled float64 } // calls; share of the requests

// callRoutes returns the outcomes of the routes of one service, whose callers read
// limits.
func callRoutes(t *testing.T, limits func(*http.Response) []awsretry.Limit, routes ...route) (all []outcomes) {
	quotas, services := make(map[string]quota), make([]*service, len(routes))
	for i, r := range routes {
		names := slices.Sorted(maps.Keys(r.limits))
		services[i] = &service{announce: policies(names...), served: make(map[string]int)}
		for _, name := range names {
			if quotas[name] == nil {
				quotas[name] = r.limits[name]()
			}
			services[i].quotas = append(services[i].quotas, quotas[name])
		}
	}
	var mu sync.Mutex // guards the services, which have quotas in common
	client := newClient(httpfake.Base(func(req *http.Request) (*http.Response, error) {
		i := int(req.URL.Path[1] - 'a')
		return trip(req, routes[i].latency, false, func(req *http.Request) *http.Response {
			mu.Lock()
			defer mu.Unlock()
			return services[i].serve(req)
		})
	}), awsretry.RateLimitConfig{Pacing: awsretry.ScaledPacing, Limits: limits}, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 4*minute)
	defer cancel()
	var calls sync.WaitGroup
	for i, r := range routes {
		for caller := range r.callers {
			random := rand.New(rand.NewPCG(uint64(i), uint64(caller)))
			trips := withTrips(context.WithoutCancel(ctx), uint64(i), uint64(caller))
			calls.Go(func() {
				for sleep(ctx, seconds(random.Float64()*(.001+2*r.pause.Seconds()))) == nil {
					req := httpfake.Request(t, trips, "GET", nil)
					req.URL.Path = fmt.Sprintf("/%c", 'a'+i)
					if _, err := client.RoundTrip(req); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	<-ctx.Done()
	synctest.Wait()
	for _, s := range services {
		throttled, served, _ := s.figures()
		all = append(all, outcomes{served, throttled})
	}
	calls.Wait()
	return all
}

// Callers of a service in which each route has a quota of its own are not worse off
// if they read the limits, whichever route they call. A route whose callers do not
// reach its quota is served as if there were no other.
func TestRoutesWithQuotasOfTheirOwn(t *testing.T) {
	worlds.Each(t, 40, func(t *testing.T, r *rand.Rand) {
		routes := make([]route, 12)
		inCommon := worlds.Chance(r, .5)
		for i := range routes {
			routes[i] = drawRoute(r, fmt.Sprint("quota ", i))
			if inCommon {
				routes[i].limits["common"] = perWindow(1e6, minute) // is never reached
			}
		}
		unread := callRoutes(t, nil, routes...)
		for i, got := range callRoutes(t, awsretry.ReadLimits, routes...) {
			want, least := unread[i], .9
			if routes[i].ample {
				least = .97
			}
			if got.served < least*want.served || got.throttled > want.throttled+.01+1/got.served {
				t.Errorf("/%c: %.0f served, %.3f throttled; unread %.0f, %.3f; in common %v; %+v",
					'a'+i, got.served, got.throttled, want.served, want.throttled, inCommon, routes[i])
			}
		}
	})
}

// A route that is used up does not delay another one.
func TestRouteThatIsUsedUp(t *testing.T) {
	ample := route{map[string]func() quota{"ample": refilling(100, 100)}, 8, second / 10, 0, true}
	usedUp := route{map[string]func() quota{"used up": perWindow(1, 10*second)}, 8, second / 10, 0, false}
	for _, inCommon := range []bool{false, true} {
		if inCommon {
			ample.limits["common"], usedUp.limits["common"] = perWindow(1e6, minute), perWindow(1e6, minute)
		}
		synctest.Test(t, func(t *testing.T) {
			alone := callRoutes(t, awsretry.ReadLimits, ample)[0]
			if got := callRoutes(t, awsretry.ReadLimits, ample, usedUp)[0]; got.served < .99*alone.served {
				t.Errorf("in common %v: %.0f calls served, without the other route %.0f", inCommon, got.served, alone.served)
			}
		})
	}
}

// Callers who need two limits at once get their share of both, although others need
// only one of them, and one has room when the other one has not.
func TestRouteWithTheLimitsOfTwo(t *testing.T) {
	for name, kind := range map[string]func(n float64) func() quota{
		"fixed":   func(n float64) func() quota { return perWindow(n, 10*second) },
		"sliding": func(n float64) func() quota { return inAny(int(n), 10*second, false) },
		"bucket":  func(n float64) func() quota { return refilling(n, n/10) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := kind(100), kind(130)
				got := callRoutes(t, awsretry.ReadLimits,
					route{map[string]func() quota{"a": a}, 8, second / 10, 0, false},
					route{map[string]func() quota{"b": b}, 8, second / 10, 0, false},
					route{map[string]func() quota{"a": a, "b": b}, 2, second / 10, 0, false})
				if fair := (got[0].served + got[2].served) / 5; got[2].served < .8*fair {
					t.Errorf("%.0f calls served, of %.0f", got[2].served, fair)
				}
			})
		})
	}
}
