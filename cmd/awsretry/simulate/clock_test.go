package simulate

import (
	"context"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

func TestTickFor(t *testing.T) {
	for owners, want := range map[int]time.Duration{1: 2, 2: 4, 3: 8, 5: 10, 12_501: 31_250, 500_000: time.Millisecond, 1e9: time.Second} {
		if got := tickFor(owners); got != want {
			t.Errorf("%d owners: tick %d ns, want %d", owners, got, want)
		}
	}
}

func TestInstantsBelongToOneOwner(t *testing.T) {
	g := grid{tick: tickFor(7)}
	at := map[time.Duration]int{}
	for owner := range 7 {
		for from := time.Duration(0); from < 60; from++ {
			next := g.next(owner, from)
			if next < from || next >= from+g.tick || !g.owns(owner, next) {
				t.Fatalf("owner %d's next instant from %d on is %d", owner, from, next)
			}
			for kind, instant := range []time.Duration{next, g.deadline(owner, from)} {
				key := 2 * owner
				if kind == 1 {
					key++
				}
				if other, taken := at[instant]; taken && other != key {
					t.Fatalf("instant %d is of two owners, or of an answer and a deadline", instant)
				}
				at[instant] = key
			}
		}
	}
}

// Who comes at a foreign instant, with a send token or a time-out, goes on at one of its own.
func TestForeignInstants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrid(50) // a tick of 100 ns
		c := &call{owner: 7, start: 3}
		deadline, cancel := context.WithDeadline(t.Context(), g.start.Add(333))
		defer cancel()
		for _, test := range []struct {
			now, at time.Duration
			ctx     context.Context
			ok      bool
		}{
			{3, 3, t.Context(), true},   // the call's beginning
			{14, 14, t.Context(), true}, // an instant of the owner's
			{20, 114, t.Context(), true},
			{114, 114, deadline, true},
			{120, 214, deadline, true},
			{320, 414, deadline, false},
		} {
			g.sleepUntil(test.now)
			at, ok := g.align(test.ctx, c)
			if at != test.at || ok != test.ok || g.now() != at {
				t.Errorf("at %d: %d, %v at %d, want %d, %v", test.now, at, ok, g.now(), test.at, test.ok)
			}
		}
		again, cancel := context.WithDeadline(t.Context(), g.start.Add(1001))
		defer cancel()
		if g.wait(again, 7, never) || g.now() != 1014 {
			t.Errorf("a wait that a deadline at 1001 ends is over at %d", g.now())
		}
		last, cancel := context.WithDeadline(t.Context(), g.start.Add(1114))
		defer cancel()
		if g.wait(last, 7, 1114) || g.now() != 1114 {
			t.Error("an answer at the deadline is in time")
		}
	})
}

// Whatever the setting, each retry but those that a send token lets go, and each answer, is at an instant of the caller's own.
func TestInstantsOfARun(t *testing.T) {
	for _, s := range restless() {
		for _, setting := range s.Settings {
			s := s.withDefaults()
			m, err := setting.maker(nil)
			if err != nil {
				t.Fatal(err)
			}
			retries := 0
			callers := map[uint64]time.Duration{} // when the call of that id began
			synctest.Test(t, func(t *testing.T) {
				g := newGrid(owners(s))
				record := newRecorder(time.Duration(s.Duration), s.Clients.Count)
				service := newService(s, g, record)
				var watching sync.Mutex
				watched := roundTripper(func(req *http.Request) (*http.Response, error) {
					c := req.Context().Value(callKey{}).(*call)
					sent := g.now()
					resp, err := service.RoundTrip(req)
					answered := g.now()
					watching.Lock()
					defer watching.Unlock()
					if c.attempts > 1 {
						retries++
					}
					if start, known := callers[c.id]; known && start != c.start {
						t.Errorf("%s, %s: two calls draw the same random numbers", s.Name, setting.Label())
					}
					callers[c.id] = c.start
					if sent >= record.end || answered >= record.end {
						return resp, err // everybody stops at the same instant
					}
					if !m.limits && sent != c.start && !g.owns(c.owner, sent) || !g.owns(c.owner, answered) {
						t.Errorf("%s, %s: attempt %d is sent at %d and answered at %d, the owner's instants are %d and %d", s.Name, setting.Label(),
							c.attempts, sent, answered, g.next(c.owner, sent), g.next(c.owner, answered))
					}
					return resp, err
				})
				f := newFleet(s, m, g, watched, record)
				ctx, cancel := context.WithCancel(t.Context())
				f.start(ctx)
				g.sleepUntil(record.end)
				cancel()
				f.calls.Wait()
			})
			if retries == 0 && setting.Use != UseNone {
				t.Errorf("%s, %s: nothing is retried", s.Name, setting.Label())
			}
		}
	}
}

func TestRandomIsUniform(t *testing.T) {
	const n = 100_000
	var sum, squares, normals, normalSquares float64
	for i := range uint64(n) {
		u := unit(random(3, i))
		sum += u
		squares += u * u
		z := normal(random(3, i, 1), random(3, i, 2))
		normals += z
		normalSquares += z * z
	}
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"mean", sum / n, 1. / 2}, {"mean square", squares / n, 1. / 3}, {"normal mean", normals / n, 0}, {"normal variance", normalSquares / n, 1},
	} {
		if math.Abs(c.got-c.want) > 0.01 {
			t.Errorf("%s %v, want %v", c.what, c.got, c.want)
		}
	}
	if random(1, 2) == random(2, 1) || random(1) == random(1, 0) {
		t.Error("different parts give the same number")
	}
}

// The pauses that are built from public types have the range of those that the library makes itself.
func TestPausesAreTheLibrarys(t *testing.T) {
	failing := func(status int) http.RoundTripper {
		return roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody}, nil
		})
	}
	least := func(time.Duration) time.Duration { return 0 }
	most := func(d time.Duration) time.Duration { return d }
	for _, mode := range []struct {
		mode     awsretry.Mode
		revision awsretry.Revision
	}{{awsretry.Standard, awsretry.Classic}, {awsretry.Adaptive, awsretry.Classic}, {awsretry.Standard, awsretry.Revision2026}, {awsretry.Legacy, awsretry.Classic}} {
		for status, class := range map[int]awsretry.Class{429: awsretry.Throttled, 503: awsretry.Transient} {
			const attempts = 12
			var low, high [attempts]time.Duration
			synctest.Test(t, func(t *testing.T) {
				for draw := range 200 {
					transport := &awsretry.Transport{Base: failing(status), Mode: mode.mode, Revision: mode.revision, MaxAttempts: attempts,
						Quota: awsretry.QuotaConfig{Capacity: -1},
						Observe: func(a awsretry.Attempt) {
							i := a.Number - 1
							if a.Stop == "" && (draw == 0 || a.Delay < low[i]) {
								low[i] = a.Delay
							}
							high[i] = max(high[i], a.Delay)
						}}
					req, _ := http.NewRequest(http.MethodGet, "http://"+host, nil)
					resp, err := transport.RoundTrip(req)
					if err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
				}
			})
			for n := range attempts - 1 {
				from := seededPauses(mode.mode, mode.revision, least).Delay(n, class, 0)
				to := seededPauses(mode.mode, mode.revision, most).Delay(n, class, 0)
				near := to / 10
				if low[n] < from || low[n] > from+near || high[n] > to || high[n] < to-near {
					t.Errorf("%v %v, %v, retry %d: the library pauses %v to %v, the simulator %v to %v",
						mode.mode, mode.revision, class, n, low[n], high[n], from, to)
				}
			}
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
