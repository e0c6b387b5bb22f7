package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"example.com/awsretry"
)

// A throttle spaces attempts by throttlePolicy, first come first served and
// without bursts.
type throttle struct {
	tokens *awsretry.Quota // of one token
	gap    float64         // nanoseconds from one attempt to the next

	mu      sync.Mutex // guards the fields below
	waiting int        // callers in wait
	last    time.Time  // when the last of them was let through
}

// newThrottle returns nil where there is no throttling.
func newThrottle(policy *ThrottlePolicy) *throttle {
	if policy == nil || policy.MaxReceivesPerSecond == nil {
		return nil
	}
	perSecond := float64(*policy.MaxReceivesPerSecond)
	gap := float64(time.Second) / perSecond
	return &throttle{
		tokens: awsretry.NewQuota(awsretry.QuotaConfig{Capacity: 1, RefillPerSecond: perSecond, Wait: true}),
		gap:    gap,
		last:   time.Now().Add(-toDuration(gap)),
	}
}

// wait waits until an attempt may be made. A wait that would end after ctx's
// deadline is not begun.
func (t *throttle) wait(ctx context.Context) error {
	if t == nil {
		return nil
	}
	deadline, bounded := ctx.Deadline()
	if turn := t.join(); bounded && !turn.Before(deadline) && ctx.Err() == nil {
		t.leave(false)
		return &throttleError{awsretry.StopDeadline, context.DeadlineExceeded}
	}
	through := false
	defer func() { t.leave(through) }()
	err := t.tokens.Acquire(ctx, 1)
	through = err == nil
	switch cause := context.Cause(ctx); {
	case through:
		return nil
	case cause == nil: // the bucket knew that there was no time
		return &throttleError{awsretry.StopDeadline, context.DeadlineExceeded}
	case errors.Is(cause, ctx.Err()):
		return &throttleError{awsretry.StopCanceled, cause}
	default:
		return &throttleError{awsretry.StopCanceled, fmt.Errorf("%w: %w", ctx.Err(), cause)}
	}
}

// join counts the caller in and returns about when its turn comes, provided
// that nobody leaves early.
func (t *throttle) join() (turn time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	turn = time.Now()
	if next := t.last.Add(toDuration(t.gap)); next.After(turn) {
		turn = next
	}
	turn = turn.Add(toDuration(float64(t.waiting) * t.gap))
	t.waiting++
	return turn
}

func (t *throttle) leave(through bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting--
	if through {
		t.last = time.Now()
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
