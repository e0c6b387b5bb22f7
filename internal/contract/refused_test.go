package contract_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// A call that is refused before its first attempt is reported to the observers
// once, with the number 0.
func TestRefusedCallIsObserved(t *testing.T) {
	noKey := errors.New("no key to sign with")
	late := &awsretry.Error{Stop: awsretry.StopDeadline, Err: noKey}
	for _, tt := range []struct {
		name    string
		tr      *transport
		timeout time.Duration // 0: none
		stop    awsretry.Stop // "": no record
		class   awsretry.Class
		err     error
	}{
		{"quota", &transport{Quota: awsretry.QuotaConfig{Capacity: 5, InitialCost: 5, TimeoutCost: -1}}, 0,
			awsretry.StopQuota, awsretry.Throttled, awsretry.ErrQuotaExceeded},
		{"FailFast", &transport{Mode: awsretry.Adaptive, RateLimit: rateLimit{FailFast: true}}, 0,
			awsretry.StopRateLimit, awsretry.Throttled, awsretry.ErrRateLimited},
		{"MaxWait", &transport{Mode: awsretry.Adaptive, RateLimit: rateLimit{MaxWait: 1}}, 0,
			awsretry.StopRateLimit, awsretry.Throttled, awsretry.ErrRateLimited},
		{"send token after the deadline", &transport{Mode: awsretry.Adaptive}, time.Second,
			awsretry.StopRateLimit, awsretry.Throttled, awsretry.ErrRateLimited},
		{"shared Retry-After", &transport{ShareRetryAfter: true}, time.Second,
			awsretry.StopRateLimit, awsretry.Throttled, awsretry.ErrRateLimited},
		{"Prepare fails", &transport{Prepare: func(*http.Request, int) error { return noKey }}, 0,
			awsretry.StopPermanent, awsretry.Permanent, noKey},
		{"Prepare stops", &transport{Prepare: func(*http.Request, int) error { return late }}, 0,
			awsretry.StopDeadline, awsretry.Throttled, noKey},
		{"the context ends in Prepare", &transport{Prepare: func(req *http.Request, _ int) error {
			<-req.Context().Done()
			return noKey
		}}, 0, "", 0, errGone},
		{"the context has ended", &transport{}, -1, "", 0, context.DeadlineExceeded},
		{"the context ends in line", &transport{Quota: awsretry.QuotaConfig{
			Capacity: 5, InitialCost: 5, RefillPerSecond: 1, Wait: true}}, 0, "", 0, errGone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := tt.tr
				var seen, seenByCall []awsretry.Attempt
				tr.MaxAttempts, tr.Observe = 1, func(a awsretry.Attempt) { seen = append(seen, a) }
				tr.Base = respondsWith(429, http.NoBody, "Retry-After", "30")
				if tr.Prepare == nil { // the first call is throttled, and takes what there is
					if _, err := get(t, tr); err != nil {
						t.Fatal(err)
					}
				}
				seen = nil
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errGone) })
				ctx = awsretry.WithObserver(ctx, func(a awsretry.Attempt) { seenByCall = append(seenByCall, a) })
				if tt.timeout != 0 {
					var end context.CancelFunc
					ctx, end = context.WithTimeout(ctx, tt.timeout)
					defer end()
				}
				req := httpfake.Request(t, ctx, "GET", nil)
				_, err := tr.RoundTrip(req)
				if !errors.Is(err, tt.err) || contract.StopOf(nil, err) != tt.stop && tt.stop != "" {
					t.Error(err)
				}
				want := 1
				if tt.stop == "" {
					want = 0
				}
				if len(seen) != want || len(seenByCall) != want {
					t.Fatalf("observed %+v, by the call's observer %+v", seen, seenByCall)
				}
				for _, a := range append(seen, seenByCall...) {
					if a.Number != 0 || a.Stop != tt.stop || a.Class != tt.class || !errors.Is(a.Err, tt.err) ||
						a.Response != nil || a.Request != req || a.Partition != "service.example" {
						t.Errorf("%+v", a)
					}
				}
			})
		})
	}
}

// A retry that is refused was reported with its failure before.
func TestRefusedRetryIsObservedOnce(t *testing.T) {
	tr := retrying(httpfake.Statuses(503))
	prepareFails(2)(tr)
	var seen []int
	tr.Observe = func(a awsretry.Attempt) { seen = append(seen, a.Number) }
	if _, err := get(t, tr); err == nil || !slices.Equal(seen, []int{1}) {
		t.Errorf("%v, observed %v", err, seen)
	}
}

// A Loop reports a refusal as RoundTrip does.
func TestRefusedCallOfALoop(t *testing.T) {
	var seen []awsretry.Attempt
	tr := &transport{
		Quota:   awsretry.QuotaConfig{Capacity: 5, InitialCost: 5},
		Observe: func(a awsretry.Attempt) { seen = append(seen, a) },
	}
	for range 2 {
		loop, err := newLoop(tr, httpfake.Request(t, t.Context(), "GET", nil))
		if err != nil {
			t.Fatal(err)
		}
		if loop.Wait() == nil {
			loop.Classify(nil, "", errReset)
			loop.Decide(awsretry.StopDisabled)
		}
		loop.End()
	}
	if len(seen) != 2 || seen[1].Number != 0 || seen[1].Stop != awsretry.StopQuota {
		t.Errorf("%+v", seen)
	}
}

// A typed nil is the error that it was meant to be no error for: its methods may
// panic, so nobody calls them.
func TestTypedNilErrors(t *testing.T) {
	var none *awsretry.Error
	for name, base := range map[string]httpfake.Base{
		"*Error":          failsWith(none),
		"*url.Error":      failsWith((*url.Error)(nil)),
		"wrapped":         failsWith(&url.Error{Op: "Get", URL: "http://service.example/", Err: none}),
		"with a response": func(req *http.Request) (*http.Response, error) { return httpfake.Response(req, 200, http.NoBody), none },
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := get(t, once(base))
			failed := new(awsretry.Error)
			if resp != nil || !errors.As(err, &failed) || failed == nil || failed.Attempts != 1 {
				t.Fatalf("%v, %v", resp, err)
			}
			if text := err.Error(); !strings.Contains(text, "nil *") {
				t.Errorf("%s does not name the fault", text)
			}
			if failed.Timeout() || errors.Is(err, awsretry.ErrQuotaExceeded) {
				t.Errorf("%v: a time-out, or the quota", err)
			}
		})
	}
	t.Run("Prepare", func(t *testing.T) {
		tr := once(httpfake.Statuses(200))
		tr.Prepare = func(*http.Request, int) error { return none }
		_, err := get(t, tr)
		wantNotSent(t, err, awsretry.StopPermanent)
	})
}

// The time-out of an http.Client below is a time-out, although its text begins
// like that of a request that the caller canceled.
func TestClientBelowTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Timeout: time.Second}
		client.Transport = httpfake.Base(func(req *http.Request) (*http.Response, error) {
			<-req.Cancel
			return nil, errors.New("net/http: request canceled") // as http.Transport's
		})
		sends := 0
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			sends++
			return client.Do(req)
		})
		var last awsretry.Attempt
		tr.Observe = func(a awsretry.Attempt) { last = a }
		_, err := get(t, tr)
		if failed := new(awsretry.Error); !errors.As(err, &failed) || failed.Stop != awsretry.StopMaxAttempts ||
			!failed.Timeout() {
			t.Error(err)
		}
		if last.Class != awsretry.Timeout || sends != 3 {
			t.Errorf("%d attempts, the last is a %v", sends, last.Class)
		}
	})
}
