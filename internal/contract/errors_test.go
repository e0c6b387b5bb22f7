package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// An Error matches what refused the attempt, as well as the failure before it.
func TestErrorIs(t *testing.T) {
	sendGet(t, unpaid(failsWith(errReset))).wantIs(t, errReset, awsretry.ErrQuotaExceeded)
	limited := result{err: &awsretry.Error{Stop: awsretry.StopRateLimit, Err: errReset}}
	if limited.wantIs(t, errReset, awsretry.ErrRateLimited); errors.Is(limited.err, awsretry.ErrQuotaExceeded) {
		t.Errorf("%v matches another refusal", limited.err)
	}
}

// No error has the query, the fragment or the user of a URL in it.
func TestNoSecretsInErrors(t *testing.T) {
	const secret = "http://me:secret@service.example/path?sig=secret#secret"
	for _, tt := range []struct {
		base httpfake.Base
		want string // the end of the error; "": whatever it is
	}{
		{(&http.Client{Transport: failsWith(io.ErrUnexpectedEOF)}).Do, ""},
		// Another URL, as if Prepare signed in the query.
		{failsWith(fmt.Errorf("middleware: %w", &url.Error{Op: "Get", URL: secret, Err: io.ErrUnexpectedEOF})),
			`: middleware: Get "http://service.example/path?…": unexpected EOF`},
	} {
		r := sendGet(t, once(tt.base))
		r.wantIs(t, io.ErrUnexpectedEOF)
		if text := r.err.Error(); strings.Contains(text, "secret") || !strings.HasSuffix(text, tt.want) {
			t.Error(r.err)
		}
	}
}

// If a Policy returns something other than a class, or calls an error a success,
// RoundTrip returns an error that says so, and no tokens are drawn.
func TestPolicyWithoutAClass(t *testing.T) {
	for class, outcome := range map[awsretry.Class]outcome{
		-1: busy, 5: fails(errReset), awsretry.Success: fails(errReset),
	} {
		body := httpfake.NewBody(strings.NewReader("x"))
		tr := retrying(func(req *http.Request) (*http.Response, error) { return outcome(req, body) })
		tr.Policy = func(*awsretry.Attempt) awsretry.Class { return class }
		r := sendGet(t, tr)
		if r.want(t, 0, awsretry.StopPermanent, r.took); !strings.Contains(r.String(), "Policy returned") {
			t.Error(r)
		}
		if wantTokens(t, tr, 500); class == -1 {
			wantClosed(t, body)
		} else if class == awsretry.Success {
			r.wantIs(t, errReset)
		}
	}
}

// A call that is refused before its first attempt is reported to the observers
// once, with the number 0. One that the caller ends is not.
func TestRefusedCallIsObserved(t *testing.T) {
	noKey := errors.New("no key to sign with")
	late := &awsretry.Error{Stop: awsretry.StopDeadline, Err: noKey}
	prepare := func(f func(*http.Request) error) *transport {
		return &transport{Prepare: func(req *http.Request, _ int) error { return f(req) }}
	}
	for _, tt := range []struct {
		name    string
		tr      *transport
		timeout time.Duration // 0: none
		stop    awsretry.Stop // "": no record
		err     error
	}{
		{"quota", &transport{Quota: awsretry.QuotaConfig{Capacity: 5, InitialCost: 5, TimeoutCost: -1}}, 0,
			awsretry.StopQuota, awsretry.ErrQuotaExceeded},
		{"FailFast", &transport{Mode: awsretry.Adaptive, RateLimit: rateLimit{FailFast: true}}, 0,
			awsretry.StopRateLimit, awsretry.ErrRateLimited},
		{"shared Retry-After", &transport{ShareRetryAfter: true}, time.Second, awsretry.StopRateLimit, awsretry.ErrRateLimited},
		{"Prepare fails", prepare(func(*http.Request) error { return noKey }), 0, awsretry.StopPermanent, noKey},
		{"Prepare stops", prepare(func(*http.Request) error { return late }), 0, awsretry.StopDeadline, noKey},
		{"the context ends in Prepare", prepare(func(req *http.Request) error { <-req.Context().Done(); return noKey }), 0,
			"", errGone},
		{"the context has ended", &transport{}, -1, "", context.DeadlineExceeded},
		{"the context ends in line", &transport{Quota: awsretry.QuotaConfig{
			Capacity: 5, InitialCost: 5, RefillPerSecond: 1, Wait: true}}, 0, "", errGone},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			var seen []awsretry.Attempt
			observe := func(a awsretry.Attempt) { seen = append(seen, a) }
			tr := tt.tr
			tr.MaxAttempts, tr.Observe, tr.Base = 1, observe, respondsWith(429, http.NoBody, "Retry-After", "30")
			if tr.Prepare == nil { // the first call is throttled, and takes what there is
				sendGet(t, tr).wantBody(t, "")
			}
			seen = nil
			ctx, cancel := context.WithCancelCause(within(t, tt.timeout))
			time.AfterFunc(time.Second, func() { cancel(errGone) })
			req := httpfake.Request(t, awsretry.WithObserver(ctx, observe), "GET", nil)
			r := send(tr, req)
			records, class := 2, awsretry.Throttled // of the Transport's observer and of the call's
			switch tt.stop {
			case "":
				records = 0
			case awsretry.StopPermanent:
				class = awsretry.Permanent
			}
			if r.wantIs(t, tt.err); tt.stop != "" && r.stop != tt.stop || len(seen) != records {
				t.Errorf("%v; %d records, want %d", r, len(seen), records)
			}
			for _, a := range seen {
				if a.Number != 0 || a.Stop != tt.stop || a.Class != class || !errors.Is(a.Err, tt.err) ||
					a.Response != nil || a.Request != req || a.Partition != "service.example" {
					t.Errorf("%+v", a)
				}
			}
		})
	}
}

// A typed nil is the error that it was meant to be no error for: its methods may
// panic, so nobody calls them.
func TestTypedNilErrors(t *testing.T) {
	var none *awsretry.Error
	for name, outcome := range map[string]outcome{
		"*Error":     fails(none),
		"*url.Error": fails((*url.Error)(nil)),
		"wrapped":    fails(&url.Error{Op: "Get", URL: "http://service.example/", Err: none}),
		"with a response": func(req *http.Request, _ io.ReadCloser) (*http.Response, error) {
			return httpfake.Empty(200, req), none
		},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := get(t, once(always(outcome)))
			failed := new(awsretry.Error)
			if resp != nil || !errors.As(err, &failed) || failed == nil || failed.Attempts != 1 {
				t.Fatalf("%v, %v", resp, err)
			}
			if text := err.Error(); !strings.Contains(text, "nil *") || failed.Timeout() ||
				errors.Is(err, awsretry.ErrQuotaExceeded) {
				t.Errorf("%s does not name the fault, or is a timeout, or the quota", text)
			}
		})
	}
	tr := once(notSent(t))
	prepares(1, func(*http.Request) error { return none })(tr)
	wantNotSent(t, sendGet(t, tr).err, awsretry.StopPermanent)
}

// The timeout of an http.Client below is a timeout, although its text begins
// like that of a request that the caller canceled.
func TestClientBelowTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Timeout: time.Second}
		client.Transport = httpfake.Base(func(req *http.Request) (*http.Response, error) {
			<-req.Cancel
			return nil, errors.New("net/http: request canceled") // as http.Transport's
		})
		tr := retrying(client.Do)
		var last awsretry.Attempt
		tr.Observe = func(a awsretry.Attempt) { last = a }
		r := sendGet(t, tr)
		r.want(t, 0, awsretry.StopMaxAttempts, 3*time.Second)
		if failed := new(awsretry.Error); !errors.As(r.err, &failed) || !failed.Timeout() || last.Class != awsretry.Timeout {
			t.Errorf("%v; the last attempt is a %v", r, last.Class)
		}
	})
}

// MaybeExecuted is true from the first attempt on that may have had an effect
// although it failed: in the records, in Outcome and in the error.
func TestMaybeExecuted(t *testing.T) {
	refused := fails(&net.OpError{Op: "dial", Err: errors.New("connection refused")})
	lost := fails(errReset)
	gone := responds(404, "X-Amzn-ErrorType", "NoSuchUpload")
	onlyOnce := func(tr *transport) { tr.Policy = awsretry.IdempotentOnly(nil) }
	for _, tt := range []struct {
		name     string
		outcomes []outcome
		change   func(*transport)
		want     []bool // of the records; the last one is that of the call
	}{
		{"success", []outcome{ok}, nil, []bool{false}},
		{"permanent", []outcome{responds(403)}, nil, []bool{false}},
		{"throttled", []outcome{throttled, throttled, ok}, nil, []bool{false, false, false}},
		{"throttled with 503", []outcome{responds(503, "X-Amzn-ErrorType", "SlowDown"), ok}, nil, []bool{false, false}},
		{"not connected", []outcome{refused, ok}, nil, []bool{false, false}},
		{"a hidden success", []outcome{lost, gone}, nil, []bool{true, true}},
		{"a bad gateway and a hidden success", []outcome{responds(502), gone}, nil, []bool{true, true}},
		{"lost later", []outcome{refused, throttled, lost}, nil, []bool{false, false, true}},
		{"request timeout", []outcome{responds(408), ok}, nil, []bool{false, false}},
		{"not implemented", []outcome{responds(501)}, nil, []bool{false}},
		{"not idempotent", []outcome{lost}, onlyOnce, []bool{true}},
		{"not idempotent, 500", []outcome{responds(500)}, onlyOnce, []bool{true}},
		{"not idempotent, not connected", []outcome{refused, lost}, onlyOnce, []bool{false, true}},
		{"wrong scheme", []outcome{fails(http.ErrSchemeMismatch)}, nil, []bool{false}},
		{"timeout of an attempt", []outcome{hangs, gone},
			func(tr *transport) { tr.AttemptTimeout = time.Second }, []bool{true, true}},
		{"Policy fails", []outcome{ok},
			func(tr *transport) { tr.Policy = func(*awsretry.Attempt) awsretry.Class { return -1 } }, []bool{true}},
		{"canceled in the delay", []outcome{lost}, longDelay, []bool{true}},
		{"canceled in the delay after throttling", []outcome{throttled}, longDelay, []bool{false}},
		{"canceled while it is sent", []outcome{hangs}, nil, []bool{true}},
		{"Prepare fails", []outcome{busy}, prepareFails(2), []bool{true, true}},
		{"Prepare fails at first", []outcome{busy}, prepareFails(1), []bool{false}},
	} {
		for _, observed := range []bool{true, false} {
			inBubble(t, fmt.Sprintf("%s, observed %v", tt.name, observed), func(t *testing.T) {
				tr := retrying(inTurn(tt.outcomes...))
				if tt.change != nil {
					tt.change(tr)
				}
				var got []bool
				if observed {
					tr.Observe = func(a awsretry.Attempt) { got = append(got, a.MaybeExecuted) }
				}
				ctx, cancel := canceledAfter(2 * time.Second)(t.Context())
				defer cancel()
				r := send(tr, httpfake.Request(t, ctx, "POST", nil))
				if observed && !slices.Equal(got, tt.want) {
					t.Errorf("records %v, want %v", got, tt.want)
				}
				last := tt.want[len(tt.want)-1]
				if record, ok := awsretry.Outcome(r.Response); ok && record.MaybeExecuted != last {
					t.Errorf("Outcome: %v, want %v", record.MaybeExecuted, last)
				}
				if failed := new(awsretry.Error); errors.As(r.err, &failed) && failed.MaybeExecuted != last {
					t.Errorf("%v: %v, want %v", r.err, failed.MaybeExecuted, last)
				}
			})
		}
	}
}

// An attempt that panics is observed, with its tokens put back before.
func TestPanickingAttemptIsObserved(t *testing.T) {
	policy := func(*awsretry.Attempt) awsretry.Class { panic("policy") }
	for name, tt := range map[string]struct {
		base   httpfake.Base
		policy awsretry.Policy
		want   []string
	}{
		"Base":        {always(panics), nil, []string{"1 permanent awsretry: Base panicked"}},
		"Policy":      {always(busy), policy, []string{"1 permanent <nil>"}},
		"in a retry":  {inTurn(busy, panics), nil, []string{"1 transient <nil>", "2 permanent awsretry: Base panicked"}},
		"no observer": {always(panics), nil, nil},
	} {
		inBubble(t, name, func(t *testing.T) {
			var got []string
			tr := &transport{Base: tt.base, Policy: tt.policy, Backoff: delayed(0)}
			if tt.want != nil {
				tr.Observe = func(a awsretry.Attempt) {
					got = append(got, fmt.Sprintf("%d %v %v", a.Number, a.Class, a.Err))
					if a.Stop != "" {
						wantTokens(t, tr, 500)
					}
				}
			}
			_, _, panicked := tryRoundTrip(tr, httpfake.Request(t, t.Context(), "GET", nil))
			if !panicked || !slices.Equal(got, tt.want) {
				t.Errorf("panicked: %v; observed %q, want %q", panicked, got, tt.want)
			}
		})
	}
}
