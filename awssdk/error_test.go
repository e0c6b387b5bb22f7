package awssdk

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// The error of a call has one line, which ends with that of the service, and
// errors.As finds the service's error, and a net.Error only where there is one.
func TestErrorsOfCalls(t *testing.T) {
	slow := step{status: 503, code: "SlowDown"}
	asks := step{status: 503, code: "SlowDown", header: map[string]string{"Retry-After": "3600"}}
	const text = "SlowDown: http response error StatusCode: 503, status 503"
	for _, tt := range []struct {
		name    string
		config  Config
		ctx     func(context.Context) context.Context
		body    io.Reader
		wrap    func(aws.Retryer) aws.Retryer
		steps   []step
		stop    awsretry.Stop
		want    string
		network bool
	}{
		{name: "permanent", steps: []step{{status: 404, code: "NoSuchKey"}}, stop: awsretry.StopPermanent,
			want: "NoSuchKey: http response error StatusCode: 404, status 404"},
		{name: "attempts used up", steps: []step{slow, slow, slow}, stop: awsretry.StopMaxAttempts,
			want: "exceeded maximum number of attempts, 3, " + text},
		{name: "attempts of the client used up", steps: []step{slow, slow}, stop: awsretry.StopMaxAttempts,
			wrap: func(r aws.Retryer) aws.Retryer { return retry.AddWithMaxAttempts(r, 2) },
			want: "exceeded maximum number of attempts, 2, " + text},
		{name: "quota", config: Config{Quota: awsretry.QuotaConfig{Capacity: 10}}, steps: []step{slow, slow},
			stop: awsretry.StopQuota,
			want: "awsretry: gave up after 2 attempts (quota): retry capacity exceeded, " + text},
		{name: "deadline", steps: []step{slow}, stop: awsretry.StopDeadline,
			ctx: func(ctx context.Context) context.Context {
				ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
				t.Cleanup(cancel)
				return ctx
			},
			want: "awsretry: gave up after 1 attempt (deadline): the next attempt would come after the context's deadline, " + text},
		{name: "Retry-After", steps: []step{asks}, stop: awsretry.StopRetryAfter,
			want: "awsretry: gave up after 1 attempt (retry_after): the service asks for a longer delay than MaxRetryAfter, " + text},
		{name: "body", steps: []step{slow}, stop: awsretry.StopBody, body: io.MultiReader(strings.NewReader("x")),
			want: "awsretry: gave up after 1 attempt (body): the request body cannot be sent again, " + text},
		{name: "WithoutRetry", steps: []step{slow}, stop: awsretry.StopDisabled, ctx: awsretry.WithoutRetry,
			want: "awsretry: gave up after 1 attempt (disabled): the context is from WithoutRetry, " + text},
		{name: "rate limit", steps: []step{slow}, stop: awsretry.StopRateLimit,
			config: Config{
				Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{FailFast: true, MinFillRate: 0.01},
			},
			want: "failed to get retry Send token, awsretry: gave up after 1 attempt (rate_limit): send rate limited, " + text},
		{name: "reset", steps: []step{{err: sending(net.ErrClosed)}, {err: sending(net.ErrClosed)}}, stop: awsretry.StopMaxAttempts,
			config: Config{MaxAttempts: 2}, network: true,
			want: `exceeded maximum number of attempts, 2, request send failed, Post "http://127.0.0.1/": use of closed network connection`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tt.ctx != nil {
					ctx = tt.ctx(ctx)
				}
				c := newClient(true)
				c.body, c.wrap = tt.body, tt.wrap
				err := c.call(ctx, mustRetryer(t, tt.config), tt.steps...)
				if err == nil || err.Error() != tt.want {
					t.Errorf("%v\nwant %s", err, tt.want)
				}
				late := time.Since(c.sent[len(c.sent)-1])
				if stopOf(err) != tt.stop || late > 0 && tt.stop != awsretry.StopRateLimit {
					t.Errorf("stop %q, %v after the last attempt, want %q at once", stopOf(err), late, tt.stop)
				}
				if errors.Is(err, awsretry.ErrQuotaExceeded) != (tt.stop == awsretry.StopQuota) ||
					errors.Is(err, awsretry.ErrRateLimited) != (tt.stop == awsretry.StopRateLimit) {
					t.Errorf("%v matches an error of the root that it should not, or does not match its own", err)
				}
				if e := (net.Error)(nil); errors.As(err, &e) != tt.network {
					t.Errorf("a net.Error: %v, want %v", !tt.network, tt.network)
				}
				var api smithy.APIError
				var response *smithyhttp.ResponseError
				if !tt.network && (!errors.As(err, &api) || !errors.As(err, &response)) {
					t.Error("no error of the service")
				}
				var spent *retry.MaxAttemptsError
				if got := errors.As(err, &spent); got != (tt.stop == awsretry.StopMaxAttempts) || got && spent.Attempt != len(tt.steps) {
					t.Errorf("a MaxAttemptsError: %v, %+v", got, spent)
				}
				var stop *awsretry.Error
				if got := errors.As(err, &stop); got != (tt.stop != awsretry.StopPermanent) || got && stop.Attempts != len(tt.steps) {
					t.Errorf("an awsretry.Error: %v, %+v", got, stop)
				}
			})
		})
	}
}

// An error that the Retryer itself makes is not a net.Error either.
func TestErrorsOfRetryer(t *testing.T) {
	each(t, func(t *testing.T, apply bool) {
		r := mustRetryer(t, Config{
			Mode:      awsretry.Adaptive,
			RateLimit: awsretry.RateLimitConfig{FailFast: true, MinFillRate: 0.01},
			Quota:     awsretry.QuotaConfig{Capacity: 1},
		})
		c := newClient(apply)
		refused := c.call(t.Context(), r, step{status: 503, code: "SlowDown"})
		unsent := c.call(t.Context(), r)
		if !errors.Is(refused, awsretry.ErrQuotaExceeded) || !errors.Is(unsent, awsretry.ErrRateLimited) ||
			len(c.sent) > 0 {
			t.Errorf("%v; %v", refused, unsent)
		}
		if e := (net.Error)(nil); errors.As(refused, &e) || errors.As(unsent, &e) {
			t.Errorf("a net.Error: %T", e)
		}
	})
}

// A client that ignores that a retry is refused does not get a delay for it.
func TestIgnoredRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(true)
		c.wrap = func(r aws.Retryer) aws.Retryer { return ignoring{r.(aws.RetryerV2)} }
		err := c.call(t.Context(), mustRetryer(t, Config{Quota: awsretry.QuotaConfig{Capacity: 1}}), step{status: 500})
		if len(c.sent) != 1 || err == nil || err.Error() != "awssdk: no attempt follows (quota)" {
			t.Errorf("%d attempts: %v", len(c.sent), err)
		}
	})
}

type ignoring struct{ aws.RetryerV2 }

func (r ignoring) GetRetryToken(ctx context.Context, opErr error) (func(error) error, error) {
	put, _ := r.RetryerV2.GetRetryToken(ctx, opErr)
	return put, nil
}
