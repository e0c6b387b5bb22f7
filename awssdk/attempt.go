package awssdk

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/wait"
	"github.com/aws/aws-sdk-go-v2/aws"
)

// An attemptError is an attempt that failed, of a call that is known. The
// methods of a Retryer that have no context find it by its error. It is itself
// the error where that does not identify it.
type attemptError struct {
	err    error
	shown  error // what the SDK gets: err or the attemptError
	call   *call
	number int
	class  awsretry.Class
	once   bool          // the request body cannot be sent again
	delay  time.Duration // before the next attempt
	stop   awsretry.Stop // why there is none
}

func (a *attemptError) Error() string { return a.err.Error() }
func (a *attemptError) Unwrap() error { return a.err }

// identify sets a.shown, by which attemptOf finds a from now on. The SDK gets
// its own error if it can, for its metrics and for a client's own classifiers.
// An error that wraps no other, such as io.EOF, may be that of many attempts.
func (r *Retryer) identify(a *attemptError) {
	a.shown = a
	if isPointer(a.err) && errors.Unwrap(a.err) != nil {
		if _, taken := r.failed.LoadOrStore(a.err, a); !taken {
			a.shown = a.err
			return
		}
	}
	r.failed.Store(a, a)
}

// forget makes a no longer be found. Its error may be kept, and be wrapped in
// that of another call.
func (r *Retryer) forget(a *attemptError) { r.failed.Delete(a.shown) }

// attemptOf returns the attempt of a call in progress that failed with err, which
// may be wrapped, or nil if Apply did not configure the client.
func (r *Retryer) attemptOf(err error) *attemptError {
	if isPointer(err) {
		if a, ok := r.failed.Load(err); ok {
			return a.(*attemptError)
		}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return r.attemptOf(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if a := r.attemptOf(err); a != nil {
				return a
			}
		}
	}
	return nil
}

func isPointer(err error) bool { return err != nil && reflect.TypeOf(err).Kind() == reflect.Pointer }

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
	wait.For(ctx, a.delay, nil)
	return refusal(ctx, a.number, a.stop, ofAttempt(opErr))
}

// retryDelay returns the delay that decide found, for the SDK's retry loop.
func (a *attemptError) retryDelay() (time.Duration, error) {
	if a.stop != "" {
		return 0, fmt.Errorf("awssdk: no attempt follows (%s)", a.stop)
	}
	return beforeLoop(a.delay, responseOf(a.err)), nil
}
