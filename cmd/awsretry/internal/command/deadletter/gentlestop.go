package main

import (
	"context"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"example.com/awsretry"
)

// gentleSignals ends ctx when the terminal goes away, and turns a write to a pipe
// that nobody reads into an error: both would else end the process in the middle
// of an attempt, or between a delivery and its bookkeeping. SIGPIPE cannot end
// ctx, because connections raise it too.
func gentleSignals(ctx context.Context) (hungUp context.Context, end func()) {
	pipe := make(chan os.Signal, 1) // nobody receives from it
	signal.Notify(pipe, syscall.SIGPIPE)
	if signal.Ignored(syscall.SIGHUP) { // by nohup
		return ctx, func() { signal.Stop(pipe) }
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second one ends the process at once
	return ctx, func() {
		stop()
		signal.Stop(pipe)
	}
}

// A gentleStop ends requests between two attempts: an attempt that is under way when the stop is asked for comes to its own
// end, a pause does not.
type gentleStop struct {
	mu      sync.Mutex // guards the fields below
	asked   error      // why to stop; nil: go on
	sending bool       // an attempt is under way
	cancel  context.CancelCauseFunc
}

func newGentleStop() *gentleStop { return &gentleStop{cancel: func(error) {}} }

// follow asks for the stop when ctx ends, and says so. What it returns ends it.
func (g *gentleStop) follow(ctx context.Context, say func()) (end func()) {
	said := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(said)
		g.mu.Lock()
		g.asked = context.Cause(ctx)
		sending := g.sending
		if !sending {
			g.cancel(g.asked)
		}
		g.mu.Unlock()
		if sending {
			say()
		}
	})
	return func() {
		if !stop() {
			<-said
		}
	}
}

// context is for the next request, in place of its own, which ends at once.
func (g *gentleStop) context(parent context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cancel = cancel
	if g.asked != nil {
		cancel(g.asked)
	}
	return ctx, cancel
}

// attempted is an observer: the attempt is over, and a pause follows or nothing does.
func (g *gentleStop) attempted(a awsretry.Attempt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sending = false
	if a.Stop == "" && g.asked != nil {
		g.cancel(g.asked)
	}
}

// base is rt, and sees when attempts begin.
func (g *gentleStop) base(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		g.mu.Lock()
		g.sending = true
		g.mu.Unlock()
		return rt.RoundTrip(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
