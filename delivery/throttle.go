package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"example.com/awsretry"
)

// A throttle spaces attempts by throttlePolicy, first come first served and
// without bursts. nil: there is no throttling.
type throttle struct{ tokens *awsretry.Quota } // of one token

func newThrottle(policy *ThrottlePolicy) *throttle {
	if policy == nil || policy.MaxReceivesPerSecond == nil {
		return nil
	}
	return &throttle{awsretry.NewQuota(awsretry.QuotaConfig{Capacity: 1, RefillPerSecond: float64(*policy.MaxReceivesPerSecond), Wait: true})}
}

// wait waits until an attempt may be made. A wait that would end after ctx's
// deadline is not begun.
func (t *throttle) wait(ctx context.Context) error {
	if t == nil {
		return nil
	}
	err := t.tokens.Acquire(ctx, 1)
	switch cause := context.Cause(ctx); {
	case err == nil:
		return nil
	case errors.Is(err, awsretry.ErrQuotaExceeded):
		return &throttleError{awsretry.StopDeadline, context.DeadlineExceeded}
	case errors.Is(cause, ctx.Err()):
		return &throttleError{awsretry.StopCanceled, cause}
	default:
		return &throttleError{awsretry.StopCanceled, fmt.Errorf("%w: %w", ctx.Err(), cause)}
	}
}

var errRequestCanceled = errors.New("net/http: request canceled")

// untilCanceled is the request's context, which the deprecated Request.Cancel
// ends too where the caller uses it.
func untilCanceled(req *http.Request) (ctx context.Context, stop func()) {
	canceled := req.Cancel //lint:ignore SA1019 it is the caller's to use
	if canceled == nil {
		return req.Context(), func() {}
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	go func() {
		select {
		case <-canceled:
			cancel(errRequestCanceled)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// A throttleError ends a delivery that waited for its turn.
type throttleError struct {
	stop awsretry.Stop
	err  error
}

func (e *throttleError) Error() string {
	return "throttlePolicy.maxReceivesPerSecond left no time: " + e.err.Error()
}

func (e *throttleError) Unwrap() error { return e.err }

// withStop replaces the reason in the error of a delivery that the throttle
// ended.
func withStop(err error) error {
	var throttled *throttleError
	var gaveUp *awsretry.Error
	if errors.As(err, &throttled) && errors.As(err, &gaveUp) {
		gaveUp.Stop = throttled.stop
	}
	return err
}
