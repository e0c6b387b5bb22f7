package awssdk

import (
	"context"
	"net/http"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/awsproto"
	"example.com/awsretry/internal/retrier"
	"example.com/awsretry/internal/wait"
)

func release(error) error { return nil }

// MaxAttempts returns how often a request may be sent, the first attempt
// included.
func (r *Retryer) MaxAttempts() int { return r.attempts }

// IsErrorRetryable reports whether an attempt that failed with err may be
// retried.
func (r *Retryer) IsErrorRetryable(err error) bool {
	if a := r.attemptOf(err); a != nil {
		return a.retryable(err)
	}
	return r.class(err).Retryable()
}

// RetryDelay returns the delay before the attempt that follows an attempt that
// failed with err. attempt is the number of the failed attempt, from 1. If the
// SDK's retry loop is going to add up to 5 s because of an X-Amz-Retry-After,
// the delay is less by as much, and may be negative.
func (r *Retryer) RetryDelay(attempt int, err error) (time.Duration, error) {
	if a := r.attemptOf(err); a != nil {
		return a.retryDelay()
	}
	resp := responseOf(err)
	failed := awsretry.Attempt{Number: attempt, Response: resp, Class: r.class(err)}
	if resp != nil {
		failed.Request = resp.Request
	}
	delay, err := r.transport.DelayAfter(retrier.Seal{}, failed)
	return beforeLoop(delay, resp), err
}

// class returns the class of err if its call is not known.
func (r *Retryer) class(err error) awsretry.Class {
	return classOf(err, func(resp *http.Response, code string, err error) awsretry.Class {
		a := awsretry.Attempt{Number: 1, Response: resp, Code: code, Err: err}
		if resp != nil {
			a.Request = resp.Request
		}
		if a.Request == nil {
			a.Request = describe(context.Background(), "", "", nil)
		}
		return r.policy(&a)
	})
}

// GetAttemptToken waits until an attempt may be sent: until no shared
// Retry-After is in force and, in Adaptive mode, for a send token. The SDK
// calls the returned function with the outcome.
func (r *Retryer) GetAttemptToken(ctx context.Context) (func(error) error, error) {
	if c := callOf(ctx); c != nil && c.retryer == r {
		return release, c.wait()
	}
	loop, _, err := r.begin(ctx, &operation{}, "", nil, true)
	if err != nil {
		return nil, refusedFirst(err)
	}
	defer loop.End()
	if err := loop.Wait(); err != nil {
		return nil, refusedFirst(err)
	}
	return func(err error) error { settle(loop, nil, err, nested(err)); return nil }, nil
}

// GetRetryToken decides whether another attempt follows one that failed with
// opErr, and draws the tokens for it. The SDK calls the returned function with
// the outcome of that attempt.
func (r *Retryer) GetRetryToken(ctx context.Context, opErr error) (func(error) error, error) {
	if a := r.attemptOf(opErr); a != nil {
		return release, a.decide(opErr)
	}
	loop, described, err := r.begin(ctx, &operation{}, "", nil, true)
	if err != nil {
		return nil, refusedFirst(err)
	}
	defer loop.End()
	if !classify(loop, nil, opErr, nested(opErr)).Retryable() {
		loop.SetClass(awsretry.Transient) // retryable by a client's own rules
	}
	delay, stop := loop.Decide("")
	if stop != "" {
		if !awsproto.LongPolls(described) { // for those that the SDK knows it sleeps itself
			wait.For(ctx, delay, nil)
		}
		return nil, refusal(ctx, 1, stop, opErr)
	}
	putBack := loop.Detach()
	return func(err error) error {
		if err == nil {
			putBack()
		}
		return nil
	}, nil
}

// GetInitialToken returns a function that does nothing. It is part of
// [aws.Retryer]. The SDK calls GetAttemptToken instead, except for a wrapper
// that has only the methods of aws.Retryer.
func (r *Retryer) GetInitialToken() func(error) error { return release }

// settle classifies the outcome of an attempt, and updates the buckets with it.
// If another operation throttles, the retry is delayed and paid for as after
// throttling, but the attempt's own service does not throttle.
func settle(loop decisions, resp *http.Response, err error, inner bool) awsretry.Class {
	class := classify(loop, resp, err, inner)
	if inner && class == awsretry.Throttled {
		loop.SetClass(awsretry.Transient)
	}
	loop.Settle()
	loop.SetClass(class)
	return class
}

// classify passes the outcome of an attempt to the loop and returns its class.
// resp is the response of a success. If inner is set, another operation failed,
// such as one for credentials, and the attempt was not sent: it fails, but not
// because of the service's response.
func classify(loop decisions, resp *http.Response, err error, inner bool) awsretry.Class {
	class := awsretry.Success
	switch {
	case err == nil:
		loop.Classify(resp, "", nil)
	case inner:
		class = classOf(err, func(resp *http.Response, code string, err error) awsretry.Class {
			return awsretry.DefaultPolicy(&awsretry.Attempt{Response: resp, Code: code, Err: err})
		})
		loop.Classify(nil, "", err)
	default:
		class = classOf(err, loop.Classify)
	}
	loop.SetClass(class)
	return class
}
