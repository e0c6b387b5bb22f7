package awssdk

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/awsproto"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Traits are what differs between the retry loops of the SDK's versions. The
// README has a table of them. The zero value is the loop of the rules before
// 2026.
type traits struct {
	// RetryDelay gets the number 0 for the first attempt, not 1.
	from0 bool

	// The loop raises the delay to what X-Amz-Retry-After asks for. A loop that
	// does so also sleeps before it ends a call of an operation that is marked as
	// long-polling, in every version. Only the SDK can mark one.
	header bool

	// The loop releases the token of the first attempt only.
	firstOnly bool
}

// seeTraits makes the SDK's loop retry a call that sends nothing.
func seeTraits() traits {
	var p probe
	loop := retry.NewAttemptMiddleware(&p, func(request any) any { return request })
	fails := middleware.FinalizeHandlerFunc(func(context.Context, middleware.FinalizeInput) (
		out middleware.FinalizeOutput, metadata middleware.Metadata, err error,
	) {
		return out, metadata, &p
	})
	_, _, _ = loop.HandleFinalize(context.Background(), middleware.FinalizeInput{}, fails)
	return traits{from0: p.from0, header: p.asked, firstOnly: p.released == 1}
}

// A probe is the Retryer of a call with two attempts, and the error of both.
type probe struct {
	aws.NopRetryer
	from0    bool
	released int  // how many attempt tokens were
	delaying bool // the delay of the retry is being computed
	asked    bool // for the response, while delaying
}

func (*probe) IsErrorRetryable(error) bool { return true }
func (*probe) MaxAttempts() int            { return 2 }

func (p *probe) GetAttemptToken(context.Context) (func(error) error, error) {
	p.delaying = false
	return func(error) error { p.released++; return nil }, nil
}

func (p *probe) RetryDelay(attempt int, _ error) (time.Duration, error) {
	p.from0, p.delaying = attempt == 0, true
	return 0, nil
}

func (*probe) Error() string { return "awssdk: a call that shows how the SDK retries" }

// As notes whether the loop looks for the response and its header.
func (p *probe) As(target any) bool {
	if _, ok := target.(**smithyhttp.ResponseError); ok && p.delaying {
		p.asked = true
	}
	return false
}

// revision returns the revision of the SDK's own rules.
func (t traits) revision() awsretry.Revision {
	if t.header {
		return awsretry.Revision2026
	}
	return awsretry.Classic
}

// attemptsMade returns how many attempts were made when the SDK's retry loop
// calls RetryDelay with attempt.
func (t traits) attemptsMade(attempt int) int {
	if t.from0 {
		return attempt + 1
	}
	return attempt
}

// before returns what RetryDelay has to return so that the loop sleeps for
// delay. A loop that obeys X-Amz-Retry-After adds 5 s at most. It parses the
// header in the same way: a plus sign is allowed, and a number that is too large
// overflows.
func (t traits) before(delay time.Duration, resp *http.Response) time.Duration {
	if !t.header || resp == nil {
		return delay
	}
	ms, err := strconv.ParseInt(resp.Header.Get("X-Amz-Retry-After"), 10, 64)
	if err != nil || ms < 0 || time.Duration(ms)*time.Millisecond <= delay {
		return delay
	}
	return delay - awsproto.AmzRetryAfterSpan
}

// loopAt returns the traits of the loop that calls RetryDelay with attempt.
// Before v1.48 of the SDK, a variable of the environment decides them, which
// may have been set after NewRetryer.
func (r *Retryer) loopAt(attempt int) traits {
	if attempt == 0 && !r.loop.Load().from0 {
		seen := seeTraits()
		seen.from0 = true
		r.loop.Store(&seen)
	}
	return *r.loop.Load()
}
