package awsretry

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
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

// Outcome returns the record of the last attempt for a response that a
// Transport returned. There is one for every response that took a retry and for
// every response that is a failure. Its Stop reports why no attempt followed,
// its Code is the AWS error code. resp must be the response that the Transport
// returned, with its Request unchanged.
func Outcome(resp *http.Response) (Attempt, bool) {
	if resp == nil || resp.Request == nil {
		return Attempt{}, false
	}
	r, _ := resp.Request.Context().Value(recordKey{}).(*recordContext)
	if r == nil {
		return Attempt{}, false
	}
	return r.of(resp)
}

type recordKey struct{}

// A recordContext is the context of a retry. It has the attempt's options and,
// once RoundTrip has returned the response, the record for Outcome, which may
// be called at any time.
type recordContext struct {
	context.Context
	options   callOptions
	request   *http.Request // the caller's
	partition string        // of a success; written before success is
	repeated  bool          // MaybeExecuted of a success; written before success is

	// Most retried calls end in a success, which needs only the response.
	success atomic.Pointer[http.Response]
	record  atomic.Pointer[Attempt] // of any other response
}

func newRecordContext(parent context.Context, req *http.Request, options callOptions, attempt int) *recordContext {
	r := &recordContext{Context: parent, options: options, request: req}
	r.options.attempt = attempt
	return r
}

// set stores the record of the response that RoundTrip returns.
func (r *recordContext) set(a *Attempt) {
	if a.Class == Success && a.Code == "" && a.Start.IsZero() && a.Number == r.options.attempt {
		r.partition, r.repeated = a.Partition, a.MaybeExecuted
		r.success.Store(a.Response)
		return
	}
	record := *a
	record.Body = nil // it is valid during the call
	r.record.Store(&record)
}

// of returns the record of resp, and false if resp is the response to another
// request with the same context.
func (r *recordContext) of(resp *http.Response) (Attempt, bool) {
	if record := r.record.Load(); record != nil && record.Response == resp {
		return *record, true
	}
	if r.success.Load() != resp {
		return Attempt{}, false
	}
	return Attempt{
		Request: r.request, Number: r.options.attempt, Response: resp, Class: Success, Stop: StopSuccess,
		Partition: r.partition, MaybeExecuted: r.repeated,
	}, true
}

func (r *recordContext) Value(key any) any {
	switch key {
	case optionsKey{}:
		return &r.options
	case recordKey{}:
		return r
	}
	return r.Context.Value(key)
}
