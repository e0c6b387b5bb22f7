package main

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestSchedule(t *testing.T) {
	s := schedule{{0, 100}, {time.Minute, 20}, {2 * time.Minute, 200}}
	for _, tt := range []struct{ from, to, want float64 }{
		{0, 60, 6000}, {30, 90, 3600}, {0, 180, 19200}, {130, 131, 200}, {50, 50, 0},
	} {
		from, to := time.Duration(tt.from*float64(time.Second)), time.Duration(tt.to*float64(time.Second))
		if got := s.admits(from, to); got != tt.want {
			t.Errorf("from %v to %v it admits %v, want %v", from, to, got, tt.want)
		}
	}
	for at, want := range map[time.Duration]float64{0: 100, time.Minute - 1: 100, time.Minute: 20, time.Hour: 200} {
		if got := s.at(at); got != want {
			t.Errorf("at %v the rate is %v, want %v", at, got, want)
		}
	}
}

// However much is asked of it, a throttler admits its rate and one burst.
func TestThrottlerAdmitsItsRate(t *testing.T) {
	for _, tt := range []struct{ rate, want float64 }{{100, 100*10 + 10}, {5, 5*10 + 1}} {
		service := newThrottler(startClock(), schedule{{0, tt.rate}}, 0)
		for at := time.Duration(0); at <= 10*time.Second; at += time.Millisecond {
			service.admit(at)
		}
		if service.admitted != int(tt.want) || service.admitted+service.throttled != 10_001 {
			t.Errorf("of 10001 requests at a rate of %v, %d are admitted and %d throttled, want %v admitted",
				tt.rate, service.admitted, service.throttled, tt.want)
		}
	}
}

func TestHangerQueue(t *testing.T) {
	const second = time.Second
	newHanger := func() *hanger {
		return &hanger{outage: window{10 * second, 20 * second}, rate: 2, queue: 4, gives: second}
	}
	for _, tt := range []struct {
		name string
		at   []time.Duration
		want []time.Duration // until each is done; -1: refused
	}{
		{"idle", []time.Duration{0, 3 * second}, []time.Duration{second / 2, second / 2}},
		{"one after the other", []time.Duration{0, 0, second / 2}, []time.Duration{second / 2, second, second}},
		{"full", []time.Duration{0, 0, 0, 0, 0, second / 2}, []time.Duration{second / 2, second, 3 * second / 2, 2 * second, -1, 2 * second}},
		{"the outage catches it", []time.Duration{9*second + 3*second/4, 9*second + 3*second/4}, []time.Duration{10*second + second/2, 11 * second}},
		{"in the outage", []time.Duration{12 * second, 15 * second}, []time.Duration{8*second + second/2, 6 * second}},
		{
			"full in the outage",
			[]time.Duration{12 * second, 12 * second, 12 * second, 12 * second, 19 * second},
			[]time.Duration{8*second + second/2, 9 * second, 9*second + second/2, 10 * second, -1},
		},
		{"after it", []time.Duration{12 * second, 20 * second, 25 * second}, []time.Duration{8*second + second/2, second, second / 2}},
	} {
		h := newHanger()
		for i, at := range tt.at {
			got, ok := h.enqueue(at)
			if !ok {
				got = -1
			}
			if got != tt.want[i] {
				t.Errorf("%s: request %d, at %v, is done after %v, want %v", tt.name, i, at, got, tt.want[i])
			}
		}
	}
}

// A caller of a service that hangs gives up in time, whatever the service goes on doing.
func TestHangerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startClock()
		h := &hanger{clock: c, outage: window{0, 10 * time.Second}, rate: 1, queue: 1, gives: time.Second}
		_, err := h.RoundTrip(newRequest())
		if timeout, ok := err.(interface{ Timeout() bool }); !ok || !timeout.Timeout() || c.now() != time.Second {
			t.Errorf("after %v: %v, want a time-out after 1 s", c.now(), err)
		}
		resp, err := h.RoundTrip(newRequest())
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable || c.now() > time.Second+2*latency {
			t.Errorf("after %v: %v, %v; want 503 at once from the full queue", c.now(), resp, err)
		}
	})
}

func TestRefuser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startClock()
		r := &refuser{newThrottler(c, schedule{{0, 10}}, 0), window{time.Second, 2 * time.Second}}
		for i, want := range []int{200, 503, 200, 429} {
			if i < 3 {
				time.Sleep(time.Duration(i)*time.Second - c.now())
			}
			resp, err := r.RoundTrip(newRequest())
			if err != nil || resp.StatusCode != want {
				t.Errorf("request %d, at %v: %v, %v; want %d", i, c.now(), resp, err, want)
			}
		}
	})
}
