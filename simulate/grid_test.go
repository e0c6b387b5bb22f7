package simulate

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestTickFor(t *testing.T) {
	for owners, want := range map[int]time.Duration{
		1: 2, 2: 4, 3: 8, 5: 10, 12_501: 31_250, 500_000: time.Millisecond, 1e9: time.Second,
	} {
		if got := tickFor(owners); got != want {
			t.Errorf("%d owners: got a tick of %d ns, want %d", owners, got, want)
		}
	}
}

func TestInstantsBelongToOneOwner(t *testing.T) {
	g := grid{tick: tickFor(7)}
	type kind struct {
		owner    int
		deadline bool
	}
	taken := map[time.Duration]kind{}
	for owner := range 7 {
		for from := time.Duration(0); from < 60; from++ {
			next := g.next(owner, from)
			if next < from || next >= from+g.tick || !g.owns(owner, next) {
				t.Fatalf("owner %d's next instant from %d on is %d", owner, from, next)
			}
			instants := map[time.Duration]kind{next: {owner, false}, g.deadline(owner, from): {owner, true}}
			for instant, of := range instants {
				if other, ok := taken[instant]; ok && other != of {
					t.Fatalf("instant %d is of %+v and of %+v", instant, other, of)
				}
				taken[instant] = of
			}
		}
	}
}

// A request at an instant that is not its owner's, after a send token or a timeout,
// continues at an instant of its owner.
func TestAlign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrid(50) // a tick of 100 ns
		c := &call{owner: 7, start: 3}
		deadline, cancel := context.WithDeadline(t.Context(), g.start.Add(333))
		defer cancel()
		for _, tt := range []struct {
			name    string
			now, at time.Duration
			ctx     context.Context
			ok      bool
		}{
			{"the call's start", 3, 3, t.Context(), true},
			{"an own instant", 14, 14, t.Context(), true},
			{"a foreign instant", 20, 114, t.Context(), true},
			{"too late for the deadline", 320, 414, deadline, false},
		} {
			g.sleepUntil(tt.now)
			at, ok := g.align(tt.ctx, c)
			if at != tt.at || ok != tt.ok || g.now() != at {
				t.Errorf("%s: got %d, %v at %d, want %d, %v", tt.name, at, ok, g.now(), tt.at, tt.ok)
			}
		}
	})
}

func TestWait(t *testing.T) {
	for _, tt := range []struct {
		name     string
		deadline time.Duration // of the context
		until    time.Duration
		end      time.Duration // of the wait
		ok       bool
	}{
		{"nothing comes", 1001, never, 1014, false},
		{"in time", 1115, 1114, 1114, true},
		{"at the deadline", 1114, 1114, 1114, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGrid(50) // a tick of 100 ns
				ctx, cancel := context.WithDeadline(t.Context(), g.start.Add(tt.deadline))
				defer cancel()
				if ok := g.wait(ctx, 7, tt.until); ok != tt.ok || g.now() != tt.end {
					t.Errorf("got %v at %d, want %v at %d", ok, g.now(), tt.ok, tt.end)
				}
			})
		})
	}
}

// A watch is a Base that checks the instants of requests and responses.
type watch struct {
	t        *testing.T
	base     http.RoundTripper
	grid     grid
	end      time.Duration
	anywhere bool     // requests may come at foreign instants, as send tokens and those of the retry token bucket do
	asked    sync.Map // the calls that were asked to wait, by their *call: their next requests may, too
}

func (w *watch) RoundTrip(req *http.Request) (*http.Response, error) {
	c, err := callOf(req)
	if err != nil {
		return nil, err
	}
	sent := w.grid.now()
	_, asked := w.asked.LoadAndDelete(c)
	resp, err := w.base.RoundTrip(req)
	ended := w.grid.now()
	if err == nil && resp.Header.Get("Retry-After") != "" {
		w.asked.Store(c, true)
	}
	if sent < w.end && ended < w.end && // or else everybody stops at the same instant
		(!w.anywhere && !asked && sent != c.start && !w.grid.owns(c.owner, sent) || !w.grid.owns(c.owner, ended)) {
		w.t.Errorf("attempt %d is sent at %d and ends at %d, the owner's instants are %d and %d",
			c.attempts, sent, ended, w.grid.next(c.owner, sent), w.grid.next(c.owner, ended))
	}
	return resp, err
}

// Whatever the setting, each response and each retry is at an instant of its
// owner, except for retries that wait for tokens or were asked to wait.
func TestInstantsOfARun(t *testing.T) {
	for _, s := range restless() {
		for _, setting := range s.Settings {
			t.Run(s.Name+" "+setting.Label(), func(t *testing.T) {
				s := s.WithDefaults()
				m, err := newMaker(setting, nil)
				if err != nil {
					t.Fatal(err)
				}
				record := newRecorder(time.Duration(s.Duration), s.Clients.Count, nil)
				w := &watch{t: t, end: record.end, anywhere: m.limits || setting.Resume}
				synctest.Test(t, func(t *testing.T) {
					w.grid = newGrid(owners(s))
					w.base = newService(s, w.grid, record)
					f := newFleet(s, m, w.grid, w, record)
					f.start()
					w.grid.sleepUntil(record.end)
					f.stop()
				})
			})
		}
	}
}
