package awssdk

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"example.com/awsretry/internal/awsproto"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
)

// The SDK has two retry loops. The one of 2026 numbers the attempts of
// RetryDelay from 0, not from 1. It also releases only the token of the first
// attempt, raises the delay to what X-Amz-Retry-After asks for, and sleeps
// before it ends a long-polling call. The numbers show which of them runs.

// runsLoop2026 reports whether the SDK runs its loop of 2026. It makes the loop
// retry a call that sends nothing.
func runsLoop2026() bool {
	var p probe
	loop := retry.NewAttemptMiddleware(&p, func(request any) any { return request })
	fails := middleware.FinalizeHandlerFunc(func(context.Context, middleware.FinalizeInput) (
		out middleware.FinalizeOutput, metadata middleware.Metadata, err error,
	) {
		return out, metadata, errProbe
	})
	_, _, err := loop.HandleFinalize(context.Background(), middleware.FinalizeInput{}, fails)
	return err != nil && p.from0
}

var errProbe = errors.New("awssdk: a call that shows how the SDK retries")

// A probe is the Retryer of a call that ends when its first retry would begin.
type probe struct {
	aws.NopRetryer
	from0 bool // the first attempt has the number 0
}

func (*probe) IsErrorRetryable(error) bool { return true }
func (*probe) MaxAttempts() int            { return 2 }

func (p *probe) RetryDelay(attempt int, _ error) (time.Duration, error) {
	p.from0 = attempt == 0
	return 0, errProbe
}

// attemptsMade returns how many attempts were made when the SDK's retry loop
// calls RetryDelay with attempt.
func (r *Retryer) attemptsMade(attempt int) int {
	if attempt == 0 {
		r.loop2026.Store(true) // set in the environment after NewRetryer
	}
	if r.loop2026.Load() {
		return attempt + 1
	}
	return attempt
}

// beforeLoop2026 returns what RetryDelay has to return so that the loop of 2026
// sleeps for delay. That loop raises the result to what X-Amz-Retry-After asks
// for, by at most 5 s. It parses the header in the same way: a plus sign is
// allowed, and a number that is too large overflows.
func beforeLoop2026(delay time.Duration, resp *http.Response) time.Duration {
	if resp == nil {
		return delay
	}
	ms, err := strconv.ParseInt(resp.Header.Get("X-Amz-Retry-After"), 10, 64)
	if err != nil || ms < 0 || time.Duration(ms)*time.Millisecond <= delay {
		return delay
	}
	return delay - awsproto.AmzRetryAfterSpan
}
