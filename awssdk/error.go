package awssdk

import (
	"context"
	"errors"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

// A stopError is why an attempt that failed is not repeated, or why the first
// one is not sent. errors.As finds its *awsretry.Error. That is not in the
// chain of errors: it is a net.Error, and the errors of most calls are not.
type stopError struct {
	stop *awsretry.Error // its Err is the reason
	last error           // the error of the attempt; nil if the reason has it, or the SDK adds it
}

// Error returns the SDK's own text if there were too many attempts.
func (e *stopError) Error() string {
	text := e.stop.Error()
	if e.stop.Stop == awsretry.StopMaxAttempts {
		text = e.stop.Err.Error()
	}
	if e.last != nil {
		text += ", " + e.last.Error()
	}
	return text
}

func (e *stopError) Unwrap() []error {
	if e.last == nil {
		return []error{e.stop.Err}
	}
	return []error{e.stop.Err, e.last}
}

func (e *stopError) Is(target error) bool { return e.stop.Is(target) }

func (e *stopError) As(target any) bool {
	t, ok := target.(**awsretry.Error)
	if ok {
		*t = e.stop
	}
	return ok
}

// refusal returns why an attempt that failed with opErr is not repeated.
func refusal(ctx context.Context, attempts int, stop awsretry.Stop, opErr error) *stopError {
	why := errors.New("there is no retry")
	switch stop {
	case awsretry.StopQuota:
		why = awsretry.ErrQuotaExceeded
	case awsretry.StopRateLimit:
		why = awsretry.ErrRateLimited
	case awsretry.StopMaxAttempts:
		why = &retry.MaxAttemptsError{Attempt: attempts, Err: opErr}
	case awsretry.StopDeadline:
		why = errors.New("the next attempt would come after the context's deadline")
		if ctx.Err() != nil { // it has passed in an attempt
			why = endOf(ctx)
		}
	case awsretry.StopRetryAfter:
		why = errors.New("the service asks for a longer delay than MaxRetryAfter")
	case awsretry.StopBody:
		why = errors.New("the request body cannot be sent again")
	case awsretry.StopCanceled:
		why = endOf(ctx)
	case awsretry.StopDisabled:
		why = errors.New("the context is from WithoutRetry")
	}
	return &stopError{stop: &awsretry.Error{Attempts: attempts, Stop: stop, Err: why}}
}

// refusedFirst returns the error of a first attempt that may not be sent.
func refusedFirst(err error) error {
	var stop *awsretry.Error
	if errors.As(err, &stop) {
		return &stopError{stop: stop}
	}
	return err
}

// flatten returns the error of a call whose last attempt is a and whose attempts
// ended with err. It unwraps the attemptError, and makes one line of the errors
// of the attempt and of GetRetryToken, which the SDK's retry loop joins.
func (a *attemptError) flatten(err error) error {
	if err == a.shown {
		return a.err
	}
	// What a client's own middleware wraps stays wrapped, so no errors.As here.
	if spent, ok := err.(*retry.MaxAttemptsError); ok { // a limit of the client's own
		return refusal(context.Background(), spent.Attempt, awsretry.StopMaxAttempts, ofAttempt(spent.Err))
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 2 {
		return ofAttempt(err)
	}
	last := joined.Unwrap()[0]
	refused, ok := joined.Unwrap()[1].(*stopError)
	switch {
	case !ok:
		return err
	case refused.stop.Stop == awsretry.StopMaxAttempts:
		return refused
	}
	return &stopError{refused.stop, ofAttempt(last)}
}

// ofAttempt returns the error in an attemptError, and any other unchanged.
func ofAttempt(err error) error {
	if a, ok := err.(*attemptError); ok {
		return a.err
	}
	return err
}

// A canceledError is the error of a call whose context ended, with the cause.
type canceledError struct{ err, cause error }

func (e *canceledError) Error() string   { return e.err.Error() + ": " + e.cause.Error() }
func (e *canceledError) Unwrap() []error { return []error{e.err, e.cause} }

// endOf returns why ctx ended, or nil. Like the errors of a Transport, it also
// matches the context's error if that is not the cause.
func endOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return &canceledError{err, cause}
}
