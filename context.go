package awsretry

import (
	"context"
	"fmt"
	"time"
)

type optionsKey struct{}

// callOptions has what the With functions set, each in place of what it set before,
// valid or not. It is under one key, so that a request looks it up once, and does
// not change once it is in a context.
type callOptions struct {
	partition    string
	observe      func(Attempt)
	policy       Policy // nil means DefaultPolicy
	backoff      Backoff
	backoffFault error // what is wrong with backoff
	timeout      time.Duration
	maxAttempts  int
	attempt      int // number of the retry that sends the request, maybe an outer Transport's; 0 if unset
	hasPartition bool
	hasPolicy    bool
	hasTimeout   bool
	hasAttempts  bool
	noRetry      bool
}

// validate returns an error if an option is not valid.
func (o *callOptions) validate() error {
	switch {
	case o.hasAttempts && o.maxAttempts <= 0:
		return fmt.Errorf("awsretry: WithMaxAttempts has %d attempts; it must be above 0, where 1 means no retry", o.maxAttempts)
	case o.timeout < 0:
		return fmt.Errorf("awsretry: WithAttemptTimeout has %v; it must be above 0, or 0 for none", o.timeout)
	}
	return o.backoffFault
}

// optionsOf returns the options of ctx, or nil.
func optionsOf(ctx context.Context) *callOptions {
	o, _ := ctx.Value(optionsKey{}).(*callOptions)
	return o
}

func withOptions(ctx context.Context, change func(*callOptions)) context.Context {
	var o callOptions
	if outer := optionsOf(ctx); outer != nil {
		o = *outer
	}
	change(&o)
	return context.WithValue(ctx, optionsKey{}, &o)
}

// WithPartition returns a context whose requests use the retry token bucket and
// the rate limiter of the named partition. It takes precedence over
// Transport.Partition. Use it if the resources of a host are throttled
// separately, such as the tables of DynamoDB. A name longer than 255 bytes is
// replaced by its beginning and a hash.
func WithPartition(ctx context.Context, partition string) context.Context {
	return withOptions(ctx, func(o *callOptions) { o.partition, o.hasPartition = partition, true })
}

// WithObserver returns a context whose requests call observe once for every
// attempt, after Transport.Observe and the observers that ctx already has.
func WithObserver(ctx context.Context, observe func(Attempt)) context.Context {
	return withOptions(ctx, func(o *callOptions) {
		if outer := o.observe; outer != nil && observe != nil {
			o.observe = func(a Attempt) { outer(a); observe(a) }
		} else if observe != nil {
			o.observe = observe
		}
	})
}

// WithoutRetry returns a context whose requests are sent once. Their outcomes
// still count in the retry token bucket and the rate limiter. They are
// classified by status and header, in [Adaptive] mode by the body too; see the
// Code of Attempt.
func WithoutRetry(ctx context.Context) context.Context {
	return withOptions(ctx, func(o *callOptions) { o.noRetry = true })
}

// WithMaxAttempts returns a context whose requests are sent at most n times,
// the first attempt included. It takes precedence over Transport.MaxAttempts.
// If n is not above 0, RoundTrip returns an error and sends nothing.
func WithMaxAttempts(ctx context.Context, n int) context.Context {
	return withOptions(ctx, func(o *callOptions) { o.maxAttempts, o.hasAttempts = n, true })
}

// WithAttemptTimeout returns a context whose requests have the timeout d for
// each attempt. It takes precedence over Transport.AttemptTimeout. 0 means no
// timeout. If d is negative, RoundTrip returns an error and sends nothing.
func WithAttemptTimeout(ctx context.Context, d time.Duration) context.Context {
	return withOptions(ctx, func(o *callOptions) { o.timeout, o.hasTimeout = d, true })
}

// WithPolicy returns a context whose attempts are classified by policy. It
// takes precedence over Transport.Policy. Nil means [DefaultPolicy].
func WithPolicy(ctx context.Context, policy Policy) context.Context {
	return withOptions(ctx, func(o *callOptions) { o.policy, o.hasPolicy = policy, true })
}

// WithBackoff returns a context whose retries use backoff. It takes precedence
// over Transport.Backoff, unless it is nil. If backoff is not valid, RoundTrip
// returns an error and sends nothing.
func WithBackoff(ctx context.Context, backoff Backoff) context.Context {
	return withOptions(ctx, func(o *callOptions) {
		o.backoff, o.backoffFault = backoff, nil
		if err := validBackoff(backoff); err != nil {
			o.backoffFault = fmt.Errorf("awsretry: WithBackoff: %w", err)
		}
	})
}

// AttemptNumber returns the number of the attempt that ctx belongs to, from 1,
// or 1 if ctx does not belong to an attempt. It is for a RoundTripper that is a
// Transport's Base.
func AttemptNumber(ctx context.Context) int {
	if o := optionsOf(ctx); o != nil && o.attempt > 0 {
		return o.attempt
	}
	return 1
}
