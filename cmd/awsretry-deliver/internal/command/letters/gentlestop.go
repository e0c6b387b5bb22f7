package letters

import (
	"context"
	"net/http"
	"sync"

	"example.com/awsretry"
)

// A gentleStop ends requests between two attempts: when the stop is requested,
// an attempt in progress ends on its own, and a delay ends at once.
type gentleStop struct {
	mu        sync.Mutex // guards the fields below
	requested error      // why to stop; nil: continue
	sending   bool       // an attempt is in progress
	cancel    context.CancelCauseFunc
}

func newGentleStop() *gentleStop { return &gentleStop{cancel: func(error) {}} }

// follow requests the stop when ctx ends, and then calls waiting if an attempt is
// in progress. It does so until end is called.
func (g *gentleStop) follow(ctx context.Context, waiting func()) (end func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		if g.request(context.Cause(ctx)) {
			waiting()
		}
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}

// request requests the stop, and reports whether an attempt is in progress.
func (g *gentleStop) request(why error) (sending bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requested = why
	if !g.sending {
		g.cancel(why)
	}
	return g.sending
}

// context returns a context for the next request to use instead of its own, which
// ends at once.
func (g *gentleStop) context(parent context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cancel = cancel
	if g.requested != nil {
		cancel(g.requested)
	}
	return ctx, cancel
}

// attempted ends the request after an attempt, if the stop is requested. It is
// an observer.
func (g *gentleStop) attempted(a awsretry.Attempt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sending = false
	if a.Stop == "" && g.requested != nil {
		g.cancel(g.requested)
	}
}

// base returns rt, which records when an attempt begins.
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
