package awssdk

import (
	"context"
	"errors"
	"fmt"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

// refusal returns the error of a retry that is not made.
func refusal(ctx context.Context, attempts int, stop awsretry.Stop, opErr error) error {
	var why error
	switch stop {
	case awsretry.StopQuota:
		why = awsretry.ErrQuotaExceeded
	case awsretry.StopRateLimit:
		why = awsretry.ErrRateLimited
	case awsretry.StopMaxAttempts:
		why = &spent{retry.MaxAttemptsError{Attempt: attempts, Err: opErr}}
	case awsretry.StopDeadline:
		why = errors.New("the next attempt would come after the context's deadline")
	case awsretry.StopRetryAfter:
		why = errors.New("the service asks for a longer delay than MaxRetryAfter")
	case awsretry.StopBody:
		why = errors.New("the request body cannot be sent again")
	case awsretry.StopCanceled:
		why = endOf(ctx)
	case awsretry.StopDisabled:
		why = errors.New("the context is from WithoutRetry")
	}
	if why == nil {
		why = opErr
	}
	return &awsretry.Error{Attempts: attempts, Stop: stop, Err: why}
}

// A spent is the SDK's error where the attempts are used up. Its text does not
// repeat that of the last attempt.
type spent struct{ retry.MaxAttemptsError }

func (e *spent) Error() string { return fmt.Sprintf("the maximum number of attempts is %d", e.Attempt) }
func (e *spent) Unwrap() error { return &e.MaxAttemptsError }

// A refusedRetry is the error of a retry that may not be sent. The text of why
// has the attempt before it.
type refusedRetry struct{ why, last error }

func (e *refusedRetry) Error() string   { return e.why.Error() }
func (e *refusedRetry) Unwrap() []error { return []error{e.why, e.last} }

// A canceledError is an error because a context ended, with the cause of that
// end.
type canceledError struct{ err, cause error }

func (e *canceledError) Error() string   { return e.err.Error() + ": " + e.cause.Error() }
func (e *canceledError) Unwrap() []error { return []error{e.err, e.cause} }

// endOf returns why ctx ended, nil if it has not. Like the errors of a Transport
// it matches the context's error too if the cause is another one.
func endOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return &canceledError{err, cause}
}
