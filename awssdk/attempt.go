package awssdk

import (
	"errors"
	"fmt"
	"time"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
)

// An attemptError is the error of an attempt whose call is known. The methods
// of a Retryer that have no context find the call in it.
type attemptError struct {
	err    error
	call   *call // nil once it has ended
	number int
	class  awsretry.Class
	once   bool          // the request body cannot be sent again
	delay  time.Duration // before the next attempt
	stop   awsretry.Stop // why there is none
}

func (a *attemptError) Error() string { return a.err.Error() }
func (a *attemptError) Unwrap() error { return a.err }

// attemptOf returns the attempt of a call of r that failed with err, or nil if
// Apply did not configure the client.
func (r *Retryer) attemptOf(err error) *attemptError {
	var a *attemptError
	if !errors.As(err, &a) || a.call == nil || a.call.retryer != r {
		return nil
	}
	return a
}

// retryable reports whether the attempt may be retried. err is its error, which
// the SDK wraps if the client's clock was wrong.
func (a *attemptError) retryable(err error) bool {
	return a.class.Retryable() || saysRetryable(err) == aws.TrueTernary
}

// decide returns an error if no attempt follows. opErr is the error of the
// attempt, which the SDK wraps if the client's clock was wrong.
func (a *attemptError) decide(opErr error) error {
	loop, ctx := a.call.loop, a.call.described.Context()
	if !a.class.Retryable() {
		loop.SetClass(awsretry.Transient) // retryable by a client's own rules
	}
	var why awsretry.Stop
	if a.once {
		why = awsretry.StopBody
	}
	if a.delay, a.stop = loop.Decide(why); a.stop == "" {
		return nil
	}
	sleep(ctx, a.delay)
	return refusal(ctx, a.number, a.stop, ofAttempt(opErr))
}

// retryDelay returns the delay that decide found. attempt is as the SDK's retry
// loop numbers the attempts.
func (a *attemptError) retryDelay(attempt int) (time.Duration, error) {
	switch {
	case a.stop != "":
		return 0, fmt.Errorf("awssdk: no attempt follows (%s)", a.stop)
	case attempt < a.number:
		return beforeLoop2026(a.delay, responseOf(a.err)), nil
	}
	return a.delay, nil
}
