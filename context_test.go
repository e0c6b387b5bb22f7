package awsretry_test

import (
	"context"
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

// An option of one request takes precedence over the Transport.
func TestOptionsOfOneRequest(t *testing.T) {
	never := func(*awsretry.Attempt) awsretry.Class { return awsretry.Permanent }
	slow := httpfake.Base(func(req *http.Request) (*http.Response, error) {
		select {
		case <-time.After(10 * time.Second):
			return httpfake.Response(req, 503, http.NoBody), nil
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	})
	maxAttempts := func(n int) option {
		return func(ctx context.Context) context.Context { return awsretry.WithMaxAttempts(ctx, n) }
	}
	timeout := func(d time.Duration) option {
		return func(ctx context.Context) context.Context { return awsretry.WithAttemptTimeout(ctx, d) }
	}
	policy := func(p awsretry.Policy) option {
		return func(ctx context.Context) context.Context { return awsretry.WithPolicy(ctx, p) }
	}
	backoff := func(b awsretry.Backoff) option {
		return func(ctx context.Context) context.Context { return awsretry.WithBackoff(ctx, b) }
	}
	timedOut := func(*awsretry.Attempt) awsretry.Class { return awsretry.Timeout }
	for _, tt := range []struct {
		name    string
		tr      *transport
		options []option
		sends   int
		took    time.Duration
		class   awsretry.Class
	}{
		{"attempts", &transport{}, []option{maxAttempts(5)}, 5, 54 * time.Second, awsretry.Transient},
		{"one attempt", &transport{}, []option{maxAttempts(1)}, 1, 10 * time.Second, awsretry.Transient},
		{"timeout", &transport{}, []option{timeout(2 * time.Second)}, 3, 8 * time.Second, awsretry.Timeout},
		{"no timeout", &transport{AttemptTimeout: time.Second}, []option{timeout(0)}, 3, 32 * time.Second,
			awsretry.Transient},
		{"policy", &transport{}, []option{policy(never)}, 1, 10 * time.Second, awsretry.Permanent},
		{"default policy", &transport{Policy: never}, []option{policy(nil)}, 3, 32 * time.Second, awsretry.Transient},
		{"backoff", &transport{}, []option{backoff(contract.Delay(3 * time.Second))}, 3, 36 * time.Second,
			awsretry.Transient},
		{"no backoff", &transport{}, []option{backoff(nil)}, 3, 32 * time.Second, awsretry.Transient},
		{"backoff completed by the revision", &transport{Revision: awsretry.Revision2026}, []option{backoff(noJitter)},
			3, 30*time.Second + 150*time.Millisecond, awsretry.Transient},
		{"all", &transport{}, []option{
			maxAttempts(2), timeout(time.Second), policy(timedOut), backoff(contract.Delay(7 * time.Second)),
		}, 2, 9 * time.Second, awsretry.Timeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen []awsretry.Attempt
				tt.tr.Base, tt.tr.Backoff = slow, contract.Delay(time.Second)
				tt.tr.Observe = func(a awsretry.Attempt) { seen = append(seen, a) }
				ctx := t.Context()
				for _, with := range tt.options {
					ctx = with(ctx)
				}
				start := time.Now()
				tt.tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
				if took := time.Since(start); took != tt.took || len(seen) != tt.sends || seen[0].Class != tt.class {
					t.Errorf("%d attempts, the first %v, in %v; want %d, %v, %v",
						len(seen), seen[0].Class, took, tt.sends, tt.class, tt.took)
				}
			})
		})
	}
}

// An option is one of the With functions with its argument.
type option = func(context.Context) context.Context

// An option that makes no sense is an error that names it, and nothing is sent.
func TestOptionsThatMakeNoSense(t *testing.T) {
	ctx := t.Context()
	for want, ctx := range map[string]context.Context{
		"WithMaxAttempts has 0":           awsretry.WithMaxAttempts(ctx, 0),
		"WithMaxAttempts has -1":          awsretry.WithMaxAttempts(ctx, -1),
		"WithAttemptTimeout has -1s":      awsretry.WithAttemptTimeout(ctx, -time.Second),
		"Backoff.Initial is -1s":          awsretry.WithBackoff(ctx, awsretry.Exponential{Initial: -time.Second}),
		"nil *awsretry.Exponential":       awsretry.WithBackoff(ctx, (*awsretry.Exponential)(nil)),
		"WithBackoff: Backoff.Factor":     awsretry.WithBackoff(ctx, awsretry.Exponential{Factor: .5}),
		"WithMaxAttempts has -2 attempts": awsretry.WithPolicy(awsretry.WithMaxAttempts(ctx, -2), nil),
	} {
		t.Run(want, func(t *testing.T) {
			source := httpfake.NewBody(strings.NewReader("x"))
			tr := &awsretry.Transport{Base: httpfake.Base(func(*http.Request) (*http.Response, error) {
				t.Error("sent")
				return nil, io.EOF
			})}
			resp, err := tr.RoundTrip(httpfake.Request(t, ctx, "PUT", source))
			if err == nil || !strings.Contains(err.Error(), want) ||
				contract.StopOf(resp, err) != awsretry.StopPermanent {
				t.Errorf("%v, %v; want an error with %q", resp, err, want)
			}
			if source.Closes() != 1 {
				t.Errorf("the body was closed %d times", source.Closes())
			}
		})
	}
}
