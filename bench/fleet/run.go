package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A plan is what every contender goes through. Each fault is measured for as
// long as it lasts, and for a time after it.
type plan struct {
	processes, callers int           // callers of a process call the limited service one request after the other
	rate               int           // requests per second that the limited service allows
	calls              float64       // per second, of a process to the other service, whose limit is far away
	settle             time.Duration // before anything is measured, and between the faults
	healthy, slow      time.Duration
	hangs, stopped     time.Duration
	after              time.Duration
	delay              time.Duration // of a slow store
}

var full = plan{
	processes: 20, callers: 4, rate: 100, calls: 5,
	settle: 8 * time.Second, healthy: 15 * time.Second, slow: 6 * time.Second,
	hangs: 2 * time.Second, stopped: 3 * time.Second, after: time.Second, delay: 20 * time.Millisecond,
}

// farAway is the limit of the service that is called seldom.
const farAway = 10_000

// A phase is a part of a run.
type phase int

const (
	healthy phase = iota
	slow
	hanging
	stopped
	phases
)

// A world is the processes of one contender, their services and their store.
type world struct {
	plan    plan
	limited *service
	free    *service
	store   *store
	proxy   *proxy
	asks    atomic.Int64

	mu    sync.Mutex
	calls []call
}

// A call is a request that has ended.
type call struct {
	ended  time.Time
	added  time.Duration // to the time of its attempts
	free   bool          // of the limit
	failed bool
}

// run measures a contender.
func (p plan) run(ctx context.Context, c contender) (all [phases]figures, err error) {
	w := &world{plan: p, limited: startService(p.rate), free: startService(farAway)}
	defer w.limited.Close()
	defer w.free.Close()
	if w.store, err = startStore(); err != nil {
		return all, err
	}
	defer w.store.close()
	if w.proxy, err = startProxy(w.store.socket); err != nil {
		return all, err
	}
	defer w.proxy.close()
	processes := make([]process, p.processes)
	for i := range processes {
		processes[i] = c.connect(setting{
			store:  w.proxy.addr,
			limits: limits{w.limited.host(): p.rate, w.free.host(): farAway},
			base:   timed{&http.Transport{MaxIdleConnsPerHost: 10}},
			asks:   &w.asks,
		})
		defer processes[i].close()
	}
	ctx, cancel := context.WithCancel(ctx)
	var callers sync.WaitGroup
	defer callers.Wait()
	defer cancel()
	for _, process := range processes {
		for range p.callers {
			callers.Go(func() {
				for ctx.Err() == nil {
					w.call(ctx, process, w.limited)
				}
			})
		}
		callers.Go(func() {
			for sleep(ctx, time.Duration(rand.ExpFloat64()/p.calls*float64(time.Second))) == nil {
				callers.Go(func() { w.call(ctx, process, w.free) })
			}
		})
	}
	if err := sleep(ctx, p.settle); err != nil {
		return all, err
	}
	for i := range phases {
		if i > healthy && !c.usesStore {
			break
		}
		if all[i], err = w.measure(ctx, i); err != nil {
			return all, err
		}
		if err := sleep(ctx, p.settle/2); err != nil {
			return all, err
		}
	}
	return all, nil
}

// measure does to the store what the phase is about, and measures meanwhile.
func (w *world) measure(ctx context.Context, of phase) (figures, error) {
	begin, asks := time.Now(), w.asks.Load()
	before, err := w.store.scripts(ctx)
	if err != nil {
		return figures{}, err
	}
	if err := w.disturb(ctx, of); err != nil {
		return figures{}, err
	}
	f := w.figures(begin, time.Now())
	f.roundTrips = float64(w.asks.Load()-asks) / float64(max(f.requests, 1))
	scripts, err := w.store.scripts(ctx)
	f.scripts = float64(scripts-before) / time.Since(begin).Seconds()
	return f, err
}

// disturb returns when the phase is over.
func (w *world) disturb(ctx context.Context, of phase) error {
	fault, after := w.plan.healthy, w.plan.after
	end := func() error { return nil }
	switch of {
	case healthy:
		after = 0
	case slow:
		w.proxy.delay.Store(int64(w.plan.delay / 2))
		defer w.proxy.delay.Store(0)
		fault, after = w.plan.slow, 0
	case hanging:
		w.proxy.held.Lock()
		fault, end = w.plan.hangs, func() error { w.proxy.held.Unlock(); return nil }
	case stopped:
		w.proxy.close()
		fault, end = w.plan.stopped, func() error { return errors.Join(w.store.empty(ctx), w.proxy.open()) }
	}
	if err := errors.Join(sleep(ctx, fault), end()); err != nil {
		return err
	}
	return sleep(ctx, after)
}

// call makes a request.
func (w *world) call(ctx context.Context, p process, to *service) {
	var attempts atomic.Int64
	req, err := http.NewRequestWithContext(context.WithValue(ctx, attemptsKey{}, &attempts), http.MethodGet,
		to.URL, nil)
	if err != nil {
		return
	}
	begin := time.Now()
	resp, err := p.RoundTrip(req)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body) // for the next request on the connection
		resp.Body.Close()
	}
	if ctx.Err() != nil {
		return
	}
	ended := time.Now()
	added := ended.Sub(begin) - time.Duration(attempts.Load())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, call{ended, added, to == w.free, err != nil})
}

// timed adds the time of each attempt to a number in the context.
type timed struct{ base http.RoundTripper }

type attemptsKey struct{}

func (t timed) RoundTrip(req *http.Request) (*http.Response, error) {
	begin := time.Now()
	resp, err := t.base.RoundTrip(req)
	req.Context().Value(attemptsKey{}).(*atomic.Int64).Add(int64(time.Since(begin)))
	return resp, err
}
