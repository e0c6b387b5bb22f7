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
	for _, tt := range []*struct {
		name  string
		tr    awsretry.Transport
		ctx   func(context.Context) context.Context
		sends int
		took  time.Duration
		class awsretry.Class
	}{
		{
			name: "WithMaxAttempts", sends: 5, took: 50*time.Second + 4*time.Second, class: awsretry.Transient,
			ctx: func(ctx context.Context) context.Context { return awsretry.WithMaxAttempts(ctx, 5) },
		},
		{
			name: "WithMaxAttempts of one", sends: 1, took: 10 * time.Second, class: awsretry.Transient,
			ctx: func(ctx context.Context) context.Context { return awsretry.WithMaxAttempts(ctx, 1) },
		},
		{
			name: "WithAttemptTimeout", sends: 3, took: 3*2*time.Second + 2*time.Second, class: awsretry.Timeout,
			ctx: func(ctx context.Context) context.Context { return awsretry.WithAttemptTimeout(ctx, 2*time.Second) },
		},
		{
			name: "WithAttemptTimeout of none", tr: awsretry.Transport{AttemptTimeout: time.Second},
			sends: 3, took: 32 * time.Second, class: awsretry.Transient,
			ctx: func(ctx context.Context) context.Context { return awsretry.WithAttemptTimeout(ctx, 0) },
		},
		{
			name: "WithPolicy", sends: 1, took: 10 * time.Second, class: awsretry.Permanent,
			ctx: func(ctx context.Context) context.Context { return awsretry.WithPolicy(ctx, never) },
		},
		{
			name: "WithPolicy of nil", tr: awsretry.Transport{Policy: never},
			sends: 3, took: 32 * time.Second, class: awsretry.Transient,
			ctx: func(ctx context.Context) context.Context { return awsretry.WithPolicy(ctx, nil) },
		},
		{
			name: "WithBackoff", sends: 3, took: 36 * time.Second, class: awsretry.Transient,
			ctx: func(ctx context.Context) context.Context {
				return awsretry.WithBackoff(ctx, contract.Delay(3*time.Second))
			},
		},
		{
			name: "WithBackoff of nil", sends: 3, took: 32 * time.Second, class: awsretry.Transient,
			ctx: func(ctx context.Context) context.Context { return awsretry.WithBackoff(ctx, nil) },
		},
		{
			name: "WithBackoff completed by the revision", tr: awsretry.Transport{Revision: awsretry.Revision2026},
			sends: 3, took: 30*time.Second + 150*time.Millisecond, class: awsretry.Transient,
			ctx: func(ctx context.Context) context.Context {
				return awsretry.WithBackoff(ctx, awsretry.Exponential{Jitter: awsretry.NoJitter})
			},
		},
		{
			name: "all", sends: 2, took: 2*time.Second + 7*time.Second, class: awsretry.Timeout,
			ctx: func(ctx context.Context) context.Context {
				ctx = awsretry.WithMaxAttempts(ctx, 2)
				ctx = awsretry.WithAttemptTimeout(ctx, time.Second)
				ctx = awsretry.WithPolicy(ctx, func(*awsretry.Attempt) awsretry.Class { return awsretry.Timeout })
				return awsretry.WithBackoff(ctx, contract.Delay(7*time.Second))
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen []awsretry.Attempt
				tr := &awsretry.Transport{
					Base: slow, AttemptTimeout: tt.tr.AttemptTimeout, Policy: tt.tr.Policy, Revision: tt.tr.Revision,
					Backoff: contract.Delay(time.Second),
					Observe: func(a awsretry.Attempt) { seen = append(seen, a) },
				}
				start := time.Now()
				tr.RoundTrip(httpfake.Request(t, tt.ctx(t.Context()), "GET", nil))
				if took := time.Since(start); took != tt.took || len(seen) != tt.sends || seen[0].Class != tt.class {
					t.Errorf("%d attempts, the first %v, in %v; want %d, %v, %v",
						len(seen), seen[0].Class, took, tt.sends, tt.class, tt.took)
				}
			})
		})
	}
}

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
