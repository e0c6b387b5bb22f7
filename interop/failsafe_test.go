package interop

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"example.com/awsretry/interop/internal/peers"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/fallback"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
)

// A carelessCase is a request through a Base that does not close request
// bodies, or not when it must.
type carelessCase struct {
	name    string
	base    func(http.RoundTripper) http.RoundTripper
	service []http.HandlerFunc // for one request after another
	sent    int                // requests that the service must see
	status  int                // of the response
	err     error              // that matches the error, if there is no response
	seeks   bool               // it rewinds a file while it still reads it for another request
}

// run sends a body of each kind. RoundTrip must return, every attempt's body
// must be whole, and the caller's must be closed once.
func (c carelessCase) run(t *testing.T) {
	kinds := []bodyKind{{name: "pipe", content: content, open: openPipe}}
	for _, kind := range bodyKinds {
		if kind.name == "stream of known length" || kind.name == "file" && !c.seeks {
			kinds = append(kinds, kind)
		}
	}
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.send(t, kind) })
		})
	}
}

func (c carelessCase) send(t *testing.T, kind bodyKind) {
	srv := kit.ServeScript(t, c.service...)
	tr := kit.Retrying(c.base(srv.Base))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	req, body := kind.request(t, ctx, srv.URL)
	resp, err := tr.RoundTrip(req)
	switch {
	case ctx.Err() != nil:
		t.Fatalf("RoundTrip returned only after its deadline: %v", err)
	case c.err != nil && !errors.Is(err, c.err):
		t.Errorf("the error is %v, want %v", err, c.err)
	case c.err == nil && (err != nil || resp.StatusCode != c.status):
		t.Errorf("%v, %v, want status %d", resp, err, c.status)
	}
	if resp != nil {
		httpfake.ReadAll(t, resp)
	}
	bodies := srv.Requests()
	notWhole := func(r kit.Sent) bool { return r.Body != string(content) }
	if len(bodies) != c.sent || slices.ContainsFunc(bodies, notWhole) {
		t.Errorf("the service received %d bodies, want %d, all of them whole", len(bodies), c.sent)
	}
	wantClosedOnce(t, body)
}

// The policies of failsafe-go send what a Transport retries. They read a whole
// request body before they do anything else, and never close it.
func TestFailsafeBelow(t *testing.T) {
	over := func(b http.RoundTripper, policy peers.Policy) http.RoundTripper {
		return failsafehttp.NewRoundTripper(b, policy)
	}
	withPolicy := func(policy peers.Policy) func(http.RoundTripper) http.RoundTripper {
		return func(b http.RoundTripper) http.RoundTripper { return over(b, policy) }
	}
	// Policies with a state are made for each request.
	closedBreaker := func(b http.RoundTripper) http.RoundTripper { return over(b, breaker()) }
	openBreaker := func(b http.RoundTripper) http.RoundTripper {
		breaker := circuitbreaker.NewWithDefaults[*http.Response]()
		breaker.Open()
		return over(b, breaker)
	}
	fallBack := func(b http.RoundTripper) http.RoundTripper {
		return over(b, fallback.NewBuilderWithFunc(func(failsafe.Execution[*http.Response]) (*http.Response, error) {
			body := io.NopCloser(strings.NewReader("fallback"))
			return &http.Response{StatusCode: 203, Header: make(http.Header), Body: body}, nil
		}).HandleIf(func(resp *http.Response, err error) bool { return err != nil || resp.StatusCode >= 500 }).Build())
	}
	late := withPolicy(timeout.New[*http.Response](300 * time.Millisecond))
	hedge := withPolicy(hedgepolicy.NewWithDelay[*http.Response](100 * time.Millisecond))
	retry := withPolicy(peers.FailsafeRetry(lastFailure))

	busy, ok := kit.Respond(503, "busy"), kit.Respond(200, "{}")
	slow := func(w http.ResponseWriter, r *http.Request) { kit.Pause(r.Context(), time.Second); ok(w, r) }
	type service = []http.HandlerFunc
	for _, tt := range []carelessCase{
		{name: "circuit breaker, closed", base: closedBreaker, service: service{busy, ok}, sent: 2, status: 200},
		{name: "circuit breaker, opening", base: closedBreaker, service: service{busy}, sent: 2, err: circuitbreaker.ErrOpen},
		{name: "circuit breaker, open", base: openBreaker, service: service{ok}, sent: 0, err: circuitbreaker.ErrOpen},
		{name: "time-out", base: late, service: service{hang, ok}, sent: 2, status: 200},
		{name: "hedge", base: hedge, service: service{slow, ok}, sent: 2, status: 200, seeks: true},
		{name: "fallback", base: fallBack, service: service{busy}, sent: 1, status: 203},
		{name: "retry", base: retry, service: service{busy, busy, busy, ok}, sent: 4, status: 200, seeks: true},
	} {
		t.Run(tt.name, tt.run)
	}
}
