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

// The policies of failsafe-go send what a Transport retries. They read a whole
// request body before they do anything else, and never close it. RoundTrip
// returns all the same, every attempt's body is whole, and the caller's is closed
// once.
func TestFailsafeBelow(t *testing.T) {
	fallBack := fallback.NewBuilderWithFunc(func(failsafe.Execution[*http.Response]) (*http.Response, error) {
		body := io.NopCloser(strings.NewReader("fallback"))
		return &http.Response{StatusCode: 203, Header: make(http.Header), Body: body}, nil
	}).HandleIf(func(resp *http.Response, err error) bool { return err != nil || resp.StatusCode >= 500 }).Build()
	late := timeout.New[*http.Response](300 * time.Millisecond)
	hedge := hedgepolicy.NewWithDelay[*http.Response](100 * time.Millisecond)
	busy, ok := kit.Respond(503, "busy"), kit.Respond(200, "{}")
	slow := func(w http.ResponseWriter, r *http.Request) { kit.Pause(r.Context(), time.Second); ok(w, r) }
	for _, tt := range []struct {
		name    string
		policy  peers.Policy
		service []http.HandlerFunc // for one request after another
		sent    int                // requests that the service must see
		status  int                // of the response
		err     error              // that matches the error, if there is no response
	}{
		{"circuit breaker, closed", breaker(), []http.HandlerFunc{busy, ok}, 2, 200, nil},
		{"circuit breaker, opening", breaker(), []http.HandlerFunc{busy}, 2, 0, circuitbreaker.ErrOpen},
		{"time-out", late, []http.HandlerFunc{hang, ok}, 2, 200, nil},
		{"hedge", hedge, []http.HandlerFunc{slow, ok}, 2, 200, nil},
		{"fallback", fallBack, []http.HandlerFunc{busy}, 1, 203, nil},
		{"retry", peers.FailsafeRetry(func(b peers.RetryBuilder) { b.ReturnLastFailure() }), []http.HandlerFunc{busy, busy, busy, ok}, 4, 200, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := kit.ServeScript(t, tt.service...)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				req, body := bodyKind{content: content, open: openPipe}.request(t, ctx, srv.URL)
				resp, err := kit.Retrying(failsafehttp.NewRoundTripper(srv.Base, tt.policy)).RoundTrip(req)
				switch {
				case ctx.Err() != nil:
					t.Fatalf("RoundTrip returned only after its deadline: %v", err)
				case tt.err != nil && !errors.Is(err, tt.err):
					t.Errorf("the error is %v, want %v", err, tt.err)
				case tt.err == nil && (err != nil || resp.StatusCode != tt.status):
					t.Errorf("%v, %v, want status %d", resp, err, tt.status)
				}
				if resp != nil {
					httpfake.ReadAll(t, resp)
				}
				sent := srv.Requests()
				notWhole := func(r kit.Sent) bool { return r.Body != string(content) }
				if len(sent) != tt.sent || slices.ContainsFunc(sent, notWhole) {
					t.Errorf("the service received %d bodies, want %d, all of them whole", len(sent), tt.sent)
				}
				wantClosedOnce(t, body)
			})
		})
	}
}

// breaker opens after two failures, for an hour.
func breaker() peers.Policy {
	return circuitbreaker.NewBuilder[*http.Response]().
		HandleIf(func(resp *http.Response, err error) bool { return err != nil || resp.StatusCode >= 500 }).
		WithFailureThreshold(2).WithDelay(time.Hour).Build()
}
