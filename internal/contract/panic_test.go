package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// A panic in Base or in a hook leaves no lock locked and loses no token.
func TestPanicsLeaveNothing(t *testing.T) {
	for _, end := range endings {
		if !end.panics {
			continue
		}
		for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Adaptive} {
			for _, refill := range []float64{0, 1e-9} { // two kinds of bucket
				t.Run(fmt.Sprintf("%s, %s, refill %g", end.name, mode, refill), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						outcomes := end.outcomes
						tr := retrying(func(req *http.Request) (*http.Response, error) {
							httpfake.Receive(req)
							next := ok
							if len(outcomes) > 0 {
								next, outcomes = outcomes[0], outcomes[1:]
							}
							return next(req, http.NoBody)
						})
						tr.Mode, tr.Quota.RefillPerSecond = mode, refill
						if end.change != nil {
							end.change(tr)
						}
						send := func() (*http.Response, error, bool) {
							return tryRoundTrip(tr, httpfake.Request(t, t.Context(), "PUT", strings.NewReader("x")))
						}
						if _, _, panicked := send(); !panicked {
							t.Fatal("no panic")
						}
						for name, state := range tr.Partitions() {
							if state.Tokens != 500 {
								t.Errorf("%d tokens in %q", state.Tokens, name)
							}
						}
						// The hook may end another request too, but no lock may
						// stop it.
						resp, err, panicked := send()
						if !panicked && (err != nil || resp.StatusCode != 200) {
							t.Errorf("the next request: %v, %v", resp, err)
						}
					})
				})
			}
		}
	}
}

// A panic of the request body's Close leaves no goroutine that waits for
// Request.Cancel.
func TestPanicInBodyClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req := httpfake.Request(t, context.Background(), "PUT", panickingCloser{strings.NewReader("x")})
		req.Cancel = make(chan struct{})
		if _, _, panicked := tryRoundTrip(retrying(failsWith(errReset)), req); !panicked {
			t.Error("no panic")
		}
	})
}

type panickingCloser struct{ io.Reader }

func (panickingCloser) Close() error { panic("close") }

// A panic of the caller's reader reaches Base, which may recover it. Nothing
// waits for that reader.
func TestPanicInBodyRead(t *testing.T) {
	for _, recovers := range []bool{false, true} {
		t.Run(fmt.Sprintf("Base recovers %v", recovers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := httpfake.NewBody(httpfake.ReadFunc(func([]byte) (int, error) { panic("reader") }))
				sends := 0
				tr := retrying(func(req *http.Request) (resp *http.Response, err error) {
					sends++
					defer func() {
						if recovers && recover() != nil {
							err = errors.New("something panicked")
						}
					}()
					_, err = httpfake.Receive(req)
					return nil, err
				})
				start := time.Now()
				_, err, panicked := tryRoundTrip(tr, httpfake.Request(t, t.Context(), "PUT", source))
				if took := time.Since(start); panicked == recovers || (err == nil) == recovers || sends != 1 ||
					took > time.Minute {
					t.Errorf("%v; panicked: %v; %d attempts in %v", err, panicked, sends, took)
				}
				if source.Closes() != 1 || contract.TokensOf(t, tr) != 500 {
					t.Errorf("closed %d times, %d tokens", source.Closes(), contract.TokensOf(t, tr))
				}
			})
		})
	}
}
