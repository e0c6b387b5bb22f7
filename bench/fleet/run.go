package main

import (
	"context"
	"fmt"
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
	enough             int           // requests, and scripts, that a phase waits for, however long that takes
}

var (
	full = plan{
		processes: 20, callers: 4, rate: 100, calls: 5,
		settle: 8 * time.Second, healthy: 15 * time.Second, slow: 6 * time.Second,
		hangs: 2 * time.Second, stopped: 3 * time.Second, after: time.Second, delay: 20 * time.Millisecond,
	}
	short = plan{
		processes: 4, callers: 2, rate: 50, calls: 20,
		settle: 200 * time.Millisecond, healthy: 400 * time.Millisecond, slow: 200 * time.Millisecond,
		hangs: 400 * time.Millisecond, stopped: 300 * time.Millisecond, after: 100 * time.Millisecond,
		delay: 20 * time.Millisecond, enough: 5,
	}
)

const (
	farAway  = 10_000      // the limit of the service that is called seldom
	patience = time.Minute // with a part of a phase that has not seen enough
)

// A phase is a part of a run.
type phase int

const (
	healthy phase = iota
	slow
	hanging
	stopped
	phases
)

// A window is the time of a phase.
type window struct{ from, to time.Time }

// A world is the processes of one contender, their services and their store.
type world struct {
	plan      plan
	contender contender
	limited   *service
	free      *service
	store     *store
	proxy     *proxy
	asks      atomic.Int64
	begun     atomic.Int64 // calls of free
	processes []process

	mu    sync.Mutex
	calls []call
}

// A call is a request that has ended.
type call struct {
	begun, ended time.Time
	added        time.Duration // to the time of its attempts
	free         bool          // of the limit
	failed       bool
}

// run measures a contender.
func (p plan) run(ctx context.Context, c contender) (all [phases]figures, err error) {
	w := &world{plan: p, contender: c}
	defer w.close()
	if err := w.start(); err != nil {
		return all, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var callers sync.WaitGroup
	defer callers.Wait()
	defer cancel()
	for _, process := range w.processes {
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

func (w *world) start() (err error) {
	if w.store, err = newStore(); err != nil {
		return err
	}
	if w.proxy, err = startProxy(w.store.addr); err != nil {
		return err
	}
	if w.limited, err = startService(w.plan.rate); err != nil {
		return err
	}
	if w.free, err = startService(farAway); err != nil {
		return err
	}
	for range w.plan.processes {
		w.processes = append(w.processes, w.contender.connect(setting{
			store:  w.proxy.addr,
			limits: limits{w.limited.host: w.plan.rate, w.free.host: farAway},
			base:   timed{&http.Transport{MaxIdleConnsPerHost: 10}},
			asks:   &w.asks,
		}))
	}
	return nil
}

func (w *world) close() {
	for _, p := range w.processes {
		p.close()
	}
	if w.proxy != nil {
		w.proxy.close()
	}
	for _, s := range []*service{w.limited, w.free} {
		if s != nil {
			s.close()
		}
	}
	if w.store != nil {
		w.store.close()
	}
}

// measure does to the store what the phase is about, and measures meanwhile.
func (w *world) measure(ctx context.Context, of phase) (figures, error) {
	asks, scripts := w.asks.Load(), 0
	var err error
	if of == healthy {
		if scripts, err = w.store.scripts(ctx); err != nil {
			return figures{}, err
		}
	}
	begin := time.Now()
	if err := w.disturb(ctx, of); err != nil {
		return figures{}, err
	}
	if of == healthy && w.contender.usesStore {
		if err := w.await(ctx, func() (int, error) {
			now, err := w.store.scripts(ctx)
			return now - scripts, err
		}); err != nil {
			return figures{}, err
		}
	}
	f := w.figures(window{begin, time.Now()})
	f.roundTrips = float64(w.asks.Load()-asks) / float64(max(f.requests, 1))
	if of == healthy {
		now, err := w.store.scripts(ctx)
		if err != nil {
			return figures{}, err
		}
		f.scripts = float64(now-scripts) / time.Since(begin).Seconds()
	}
	return f, nil
}

// disturb returns when the phase is over.
func (w *world) disturb(ctx context.Context, of phase) error {
	switch of {
	case slow:
		w.proxy.delay.Store(int64(w.plan.delay / 2))
		defer w.proxy.delay.Store(0)
		return w.pass(ctx, w.plan.slow)
	case hanging:
		return w.hang(ctx)
	case stopped:
		w.proxy.close()
		w.store.stop()
		if err := w.pass(ctx, w.plan.stopped); err != nil {
			return err
		}
		if err := w.store.start(); err != nil {
			return err
		}
		if err := w.proxy.open(); err != nil {
			return err
		}
		return w.pass(ctx, w.plan.after)
	}
	return w.pass(ctx, w.plan.healthy)
}

// hang makes the store hang. The requests of a contender that asks it end when
// it is resumed, and the others' meanwhile.
func (w *world) hang(ctx context.Context) error {
	if err := w.store.suspend(); err != nil {
		return err
	}
	begin, before := time.Now(), w.begun.Load()
	during := w.pass
	if w.contender.asks {
		err := w.await(ctx, func() (int, error) { return int(w.begun.Load() - before), nil })
		if err != nil {
			return err
		}
		during = sleep
	}
	asked := time.Now()
	if err := during(ctx, w.plan.hangs); err != nil {
		return err
	}
	if err := w.store.resume(); err != nil {
		return err
	}
	if w.contender.asks {
		err := w.await(ctx, func() (int, error) { return w.ended(begin, asked), nil })
		if err != nil {
			return err
		}
	}
	return w.pass(ctx, w.plan.after)
}

// pass sleeps, and then waits until enough requests that began meanwhile have
// ended.
func (w *world) pass(ctx context.Context, d time.Duration) error {
	begin := time.Now()
	if err := sleep(ctx, d); err != nil {
		return err
	}
	return w.await(ctx, func() (int, error) { return w.ended(begin, time.Now()), nil })
}

// await waits until there are enough.
func (w *world) await(ctx context.Context, count func() (int, error)) error {
	for begin := time.Now(); ; {
		n, err := count()
		switch {
		case n >= w.plan.enough || err != nil:
			return err
		case time.Since(begin) > patience:
			return fmt.Errorf("%d of %d in %v", n, w.plan.enough, patience)
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// ended returns how many calls of free that began in a time have ended.
func (w *world) ended(from, to time.Time) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, c := range w.calls {
		if c.free && !c.begun.Before(from) && c.begun.Before(to) {
			n++
		}
	}
	return n
}

// call makes a request.
func (w *world) call(ctx context.Context, p process, to *service) {
	var attempts atomic.Int64
	req, err := http.NewRequestWithContext(context.WithValue(ctx, attemptsKey{}, &attempts), http.MethodGet,
		"http://"+to.host+"/", nil)
	if err != nil {
		return
	}
	begin := time.Now()
	if to == w.free {
		w.begun.Add(1)
	}
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
	w.calls = append(w.calls, call{begin, ended, added, to == w.free, err != nil})
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
