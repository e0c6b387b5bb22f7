package awsretry_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

// TestOptionsOfOneRequest: what the context says goes before the Transport.
func TestOptionsOfOneRequest(t *testing.T) {
	never := func(*awsretry.Attempt) awsretry.Class { return awsretry.Permanent }
	slow := func(req *http.Request) (*http.Response, error) {
		select {
		case <-time.After(10 * time.Second):
			return respond(req, 503, http.NoBody), nil
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
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
			name: "WithPolicy of nil", tr: awsretry.Transport{Policy: never}, sends: 3, took: 32 * time.Second, class: awsretry.Transient,
			ctx: func(ctx context.Context) context.Context { return awsretry.WithPolicy(ctx, nil) },
		},
		{
			name: "WithBackoff", sends: 3, took: 36 * time.Second, class: awsretry.Transient,
			ctx: func(ctx context.Context) context.Context { return awsretry.WithBackoff(ctx, pauseOf(3*time.Second)) },
		},
		{
			name: "WithBackoff of nil", sends: 3, took: 32 * time.Second, class: awsretry.Transient,
			ctx: func(ctx context.Context) context.Context { return awsretry.WithBackoff(ctx, nil) },
		},
		{
			name: "WithBackoff has the revision's zeros", tr: awsretry.Transport{Revision: awsretry.Revision2026},
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
				return awsretry.WithBackoff(ctx, pauseOf(7*time.Second))
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen []awsretry.Attempt
				tr := &awsretry.Transport{
					Base: baseFunc(slow), AttemptTimeout: tt.tr.AttemptTimeout, Policy: tt.tr.Policy, Revision: tt.tr.Revision, Backoff: pauseOf(time.Second),
					Observe: func(a awsretry.Attempt) { seen = append(seen, a) },
				}
				start := time.Now()
				tr.RoundTrip(request(t, tt.ctx(t.Context()), "GET", nil))
				if took := time.Since(start); took != tt.took || len(seen) != tt.sends || seen[0].Class != tt.class {
					t.Errorf("%d attempts, the first %v, in %v; want %d, %v, %v", len(seen), seen[0].Class, took, tt.sends, tt.class, tt.took)
				}
			})
		})
	}
}

// TestOptionsThatMakeNoSense: the error says which, and nothing is sent.
func TestOptionsThatMakeNoSense(t *testing.T) {
	for want, ctx := range map[string]context.Context{
		"WithMaxAttempts has 0":         awsretry.WithMaxAttempts(t.Context(), 0),
		"WithMaxAttempts has -1":        awsretry.WithMaxAttempts(t.Context(), -1),
		"WithAttemptTimeout has -1s":    awsretry.WithAttemptTimeout(t.Context(), -time.Second),
		"Backoff.Initial is -1s":        awsretry.WithBackoff(t.Context(), awsretry.Exponential{Initial: -time.Second}),
		"nil *awsretry.Exponential":     awsretry.WithBackoff(t.Context(), (*awsretry.Exponential)(nil)),
		"WithBackoff: Backoff.Factor":   awsretry.WithBackoff(t.Context(), awsretry.Exponential{Factor: .5}),
		"WithMaxAttempts has -2 attemp": awsretry.WithPolicy(awsretry.WithMaxAttempts(t.Context(), -2), nil),
	} {
		source := track(strings.NewReader("x"))
		tr := &awsretry.Transport{Base: baseFunc(func(*http.Request) (*http.Response, error) { t.Error("sent"); return nil, errReset })}
		resp, err := tr.RoundTrip(request(t, ctx, "PUT", source))
		if err == nil || !strings.Contains(err.Error(), want) || stopOf(resp, err) != awsretry.StopPermanent || source.closes.Load() != 1 {
			t.Errorf("%v, %v; closed %d times; want an error with %q", resp, err, source.closes.Load(), want)
		}
	}
}

// TestPolicyOfNoClass: what a Policy must not return is an error that says so.
func TestPolicyOfNoClass(t *testing.T) {
	for _, class := range []awsretry.Class{-1, 5, 99} {
		for _, outcome := range []answerFunc{says(503), breaks(errReset)} {
			body := track(strings.NewReader("x"))
			sends := 0
			tr := &awsretry.Transport{
				Policy: func(*awsretry.Attempt) awsretry.Class { return class },
				Base:   baseFunc(func(req *http.Request) (*http.Response, error) { sends++; return outcome(req, body) }),
			}
			resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
			if err == nil || !strings.Contains(err.Error(), "Policy returned") || stopOf(resp, err) != awsretry.StopPermanent || sends != 1 {
				t.Errorf("Class(%d): %v, %v after %d attempts", class, resp, err, sends)
			}
			if tokensOf(t, tr) != 500 {
				t.Errorf("Class(%d): %d tokens", class, tokensOf(t, tr))
			}
			if closes := body.closes.Load(); resp == nil && closes > 1 {
				t.Errorf("closed %d times", closes)
			}
		}
	}
}

// TestErrorIs: what ended the call is found beside the failure.
func TestErrorIs(t *testing.T) {
	empty := awsretry.QuotaConfig{Capacity: 1}
	tr := &awsretry.Transport{Quota: empty, Base: baseFunc(func(*http.Request) (*http.Response, error) { return nil, errReset })}
	_, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
	if !errors.Is(err, awsretry.ErrQuotaExceeded) || !errors.Is(err, errReset) || errors.Is(err, awsretry.ErrRateLimited) {
		t.Errorf("out of tokens: %v", err)
	}
	err = &awsretry.Error{Stop: awsretry.StopRateLimit, Err: errReset}
	if !errors.Is(err, awsretry.ErrRateLimited) || errors.Is(err, awsretry.ErrQuotaExceeded) {
		t.Errorf("no send token: %v", err)
	}
	err = &awsretry.Error{Stop: awsretry.StopMaxAttempts, Err: errReset}
	if errors.Is(err, awsretry.ErrRateLimited) || errors.Is(err, awsretry.ErrQuotaExceeded) {
		t.Errorf("no more attempts: %v", err)
	}
}
