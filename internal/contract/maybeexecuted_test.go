package contract_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// MaybeExecuted is true from the first attempt on that may have had an effect
// although it failed: in the records, in Outcome and in the error.
func TestMaybeExecuted(t *testing.T) {
	refused := fails(&net.OpError{Op: "dial", Err: errors.New("connection refused")})
	lost := fails(errReset)
	gone := responds(404, "X-Amzn-ErrorType", "NoSuchUpload")
	accessDenied := func(req *http.Request, _ io.ReadCloser) (*http.Response, error) {
		return httpfake.Response(req, 403, http.NoBody), nil
	}
	onlyOnce := func(tr *transport) { tr.Policy = awsretry.IdempotentOnly(nil) }
	for _, tt := range []struct {
		name     string
		outcomes []outcome
		change   func(*transport)
		want     []bool // of the records; the last one is that of the call
	}{
		{"success", []outcome{ok}, nil, []bool{false}},
		{"permanent", []outcome{accessDenied}, nil, []bool{false}},
		{"throttled", []outcome{responds(429), responds(429), ok}, nil, []bool{false, false, false}},
		{"throttled with 503", []outcome{responds(503, "X-Amzn-ErrorType", "SlowDown"), ok}, nil, []bool{false, false}},
		{"not connected", []outcome{refused, ok}, nil, []bool{false, false}},
		{"never connected", []outcome{refused, refused, refused}, nil, []bool{false, false, false}},
		{"a hidden success", []outcome{lost, gone}, nil, []bool{true, true}},
		{"a bad gateway and a hidden success", []outcome{responds(502), gone}, nil, []bool{true, true}},
		{"twice", []outcome{lost, ok}, nil, []bool{true, true}},
		{"lost later", []outcome{refused, responds(429), lost}, nil, []bool{false, false, true}},
		{"request time-out", []outcome{responds(408), ok}, nil, []bool{false, false}},
		{"not implemented", []outcome{responds(501)}, nil, []bool{false}},
		{"not idempotent", []outcome{lost}, onlyOnce, []bool{true}},
		{"not idempotent, 500", []outcome{responds(500)}, onlyOnce, []bool{true}},
		{"not idempotent, not connected", []outcome{refused, lost}, onlyOnce, []bool{false, true}},
		{"wrong scheme", []outcome{fails(http.ErrSchemeMismatch)}, nil, []bool{false}},
		{"time-out of an attempt", []outcome{hangs, gone},
			func(tr *transport) { tr.AttemptTimeout = time.Second }, []bool{true, true}},
		{"Policy fails", []outcome{ok},
			func(tr *transport) { tr.Policy = func(*awsretry.Attempt) awsretry.Class { return -1 } }, []bool{true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := retrying(inTurn(tt.outcomes...))
				if tt.change != nil {
					tt.change(tr)
				}
				var got []bool
				tr.Observe = func(a awsretry.Attempt) { got = append(got, a.MaybeExecuted) }
				resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "POST", nil))
				if !slices.Equal(got, tt.want) {
					t.Errorf("records %v, want %v", got, tt.want)
				}
				last := tt.want[len(tt.want)-1]
				if record, ok := awsretry.Outcome(resp); ok && record.MaybeExecuted != last {
					t.Errorf("Outcome: %v, want %v", record.MaybeExecuted, last)
				}
				if failed := new(awsretry.Error); errors.As(err, &failed) && failed.MaybeExecuted != last {
					t.Errorf("%v: %v, want %v", err, failed.MaybeExecuted, last)
				}
			})
		})
	}
}

// Outcome tells it of a success without an observer too.
func TestMaybeExecutedOutcome(t *testing.T) {
	for want, first := range map[bool]int{true: 500, false: 429} {
		resp, err := get(t, retrying(httpfake.Statuses(first, 200)))
		if err != nil {
			t.Fatal(err)
		}
		if record, ok := awsretry.Outcome(resp); !ok || record.MaybeExecuted != want {
			t.Errorf("after %d: %+v, %v", first, record, ok)
		}
	}
}

// The error of a call that ends between two attempts has it too.
func TestMaybeExecutedBeforeTheEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*transport)
		base   httpfake.Base
		want   bool
	}{
		"canceled in the delay":                  {longDelay, failsWith(errReset), true},
		"canceled in the delay after throttling": {longDelay, httpfake.Statuses(429), false},
		"Prepare fails":                          {prepareFails(2), httpfake.Statuses(503), true},
		"Prepare fails at first":                 {prepareFails(1), httpfake.Statuses(503), false},
		"canceled while it is sent":              {nil, func(req *http.Request) (*http.Response, error) { return hangs(req, nil) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := retrying(tt.base)
				if tt.change != nil {
					tt.change(tr)
				}
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				_, err := tr.RoundTrip(httpfake.Request(t, ctx, "POST", nil))
				if failed := new(awsretry.Error); !errors.As(err, &failed) || failed.MaybeExecuted != tt.want {
					t.Errorf("%#v", err)
				}
			})
		})
	}
}

// inTurn returns a Base with one outcome after another.
func inTurn(outcomes ...outcome) httpfake.Base {
	n := 0
	return func(req *http.Request) (*http.Response, error) {
		n++
		return outcomes[n-1](req, http.NoBody)
	}
}
