// Package delivery sends HTTP requests as Amazon SNS delivers messages to
// HTTP/S endpoints: by a delivery policy with four phases of retries, a
// throttle and a content type, and with a dead-letter queue for requests that
// cannot be delivered. Module deliveryqueue is such a queue in a store.
//
// The rules are those of Amazon SNS, "Message delivery retries".
package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/retrier"
	"example.com/awsretry/internal/wait"
)

// A Transport is an http.RoundTripper that delivers each request by a delivery
// policy, as Amazon SNS delivers to HTTP/S endpoints ("Message delivery
// retries"). Server-side failures (no connection, no response in time, 429,
// 5xx) are retried in the policy's four phases. A 2xx is a delivery. Every
// other response is a permanent failure, unless RetryStatus differs. Retry-After is ignored: the policy
// alone sets the delays. An [awsretry.Transport] without a retry token bucket
// makes the attempts.
//
// The policy's throttle counts all attempts of the Transport, so use one
// Transport for each endpoint. The zero value is ready to use. The fields must
// not be changed after the first request. A Transport is safe for concurrent
// use.
//
// RoundTrip returns the last response, whatever its status, or an
// [*awsretry.Error]. It also returns the error, instead of the last response,
// if the throttle leaves no time for a retry before the context's deadline: the
// wait for the throttle begins after the policy's delay.
//
// Redirects are not followed: as at Amazon SNS, they are permanent failures
// like any other 3xx or 4xx. An http.Client follows them by default, so set its
// CheckRedirect to a function that returns [http.ErrUseLastResponse], as in the
// example; Do then returns the redirect itself. Otherwise RoundTrip returns
// [ErrRedirect] for the request that follows the redirect, because the delivery
// has already failed and DeadLetter has been called.
type Transport struct {
	Policy         *Policy           // nil: the default policy; see Effective for a topic's
	Base           http.RoundTripper // sends each attempt; nil: awsretry's shared pooled transport
	AttemptTimeout time.Duration     // of each attempt, up to the end of its response; 0: 15 s, as at Amazon SNS

	// RetryStatus reports whether a response with this status, which is not a
	// 2xx, is retried. The status of a proxy that refuses CONNECT counts in the
	// same way. nil: 429 and 5xx are, as at Amazon SNS.
	RetryStatus func(status int) bool

	// Jitter randomizes the policy's delays. Its result is limited to between 0
	// and the delay. nil: each delay is spread by a tenth to either side, but
	// not below minDelayTarget, and not so far that all delays together may
	// exceed 3,600 s. It may exceed maxDelayTarget by a tenth: the default
	// policy waits 20 to 22 s. Only where the delays already add up to 3,600 s
	// is none longer.
	Jitter awsretry.Jitter

	// DeadLetter is called once when a delivery has failed for good, before
	// RoundTrip returns. It is also called if the request's context has ended;
	// its own context has the same values and does not end. If it returns an
	// error, RoundTrip closes the response and returns that error together with
	// the delivery's own. It can enqueue the request in a deliveryqueue. nil:
	// deliveries that fail are dropped.
	//
	// If Base, Jitter or Observe panics, DeadLetter is called and the panic
	// continues. It is never called for a request that got a 2xx.
	//
	// For DeadLetter, up to 1 MiB is buffered of a request body that has no
	// GetBody and is not an io.ReaderAt with a size, and up to 1 MiB of the
	// last response's body is read ahead.
	DeadLetter func(context.Context, DeadLetter) error

	// Observe is called once for every attempt, after the decision about a
	// retry, and for a delivery of RoundTrip that is refused before its first
	// attempt, with the Number 0. The attempt's Request may be a copy of the
	// caller's. nil: not called.
	Observe func(awsretry.Attempt)

	starting sync.Mutex
	running  atomic.Pointer[awsretry.Transport] // makes the attempts; nil before the first request
}

// Retries returns true. The packages of this repository call it, so that retries
// are not retried.
func (t *Transport) Retries(retrier.Seal) bool { return true }

// defaultAttemptTimeout is how long Amazon SNS waits for an endpoint's
// response.
const defaultAttemptTimeout = 15 * time.Second

// ErrRedirect is in the error of a request that an http.Client makes to follow
// a redirect. The request is not sent.
var ErrRedirect = errors.New("delivery: a redirect is a permanent failure and is not followed")

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	inner, err := t.start()
	if err == nil {
		err = followsRedirect(req)
	}
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	if t.DeadLetter == nil {
		return inner.RoundTrip(req)
	}
	d := delivery{Transport: t, req: req}
	return d.run(inner)
}

// followsRedirect returns ErrRedirect for a request that follows a redirect.
func followsRedirect(req *http.Request) error {
	if req.Response == nil { // set only by an http.Client that follows a redirect
		return nil
	}
	return fmt.Errorf("%w: got %d %s", ErrRedirect, req.Response.StatusCode, http.StatusText(req.Response.StatusCode))
}

// CloseIdleConnections calls the method of this name of Base, if it has one.
// The fields may still be changed after it, before the first request.
func (t *Transport) CloseIdleConnections() {
	inner := t.running.Load()
	if inner == nil && t.Validate() == nil {
		inner = &awsretry.Transport{Base: t.Base}
	}
	if inner != nil {
		inner.CloseIdleConnections()
	}
}

// Validate returns an error that names each invalid field of t, and each
// invalid attribute of its policy, with its value and what is allowed. It
// accepts the content types of raw message delivery. RoundTrip returns the same
// error before it sends anything.
func (t *Transport) Validate() error {
	var faults []error
	if err := named("delivery: Transport.Policy.", t.Policy.faults(true)...); err != nil {
		faults = append(faults, err)
	}
	if t.AttemptTimeout < 0 {
		faults = append(faults, fmt.Errorf("delivery: Transport.AttemptTimeout is %v; it must be above 0, or 0 for %v",
			t.AttemptTimeout, defaultAttemptTimeout))
	}
	return errors.Join(append(faults, retrier.CheckBase("delivery: Transport.Base", t.Base))...)
}

// start returns the Transport that makes the attempts. The first call reads the
// fields, unless they are invalid.
func (t *Transport) start() (*awsretry.Transport, error) {
	if inner := t.running.Load(); inner != nil {
		return inner, nil
	}
	t.starting.Lock()
	defer t.starting.Unlock()
	if inner := t.running.Load(); inner != nil {
		return inner, nil
	}
	if err := t.Validate(); err != nil {
		return nil, err
	}
	inner := t.newInner()
	t.running.Store(inner)
	return inner, nil
}

func (t *Transport) newInner() *awsretry.Transport {
	policy := Effective(nil, t.Policy)
	schedule := policy.schedule()
	throttle := newThrottle(policy.ThrottlePolicy)
	return &awsretry.Transport{
		Base:           t.Base,
		MaxAttempts:    schedule.retries() + 1,
		AttemptTimeout: t.attemptTimeout(),
		Policy: func(a *awsretry.Attempt) awsretry.Class {
			class := t.classify(a)
			if class == awsretry.Success {
				t.progressOf(a.Request.Context()).delivered = true
			}
			return class
		},
		Backoff: awsretry.BackoffFunc(func(n int, _ awsretry.Class, _ time.Duration) time.Duration {
			return t.delay(&schedule, n)
		}),
		MaxRetryAfter: -1,
		Quota:         awsretry.QuotaConfig{Capacity: -1},
		Partition:     func(*http.Request) string { return "" }, // without a quota, one suffices
		NestedRetries: true,                                     // only the policy limits the attempts
		Prepare: func(req *http.Request, number int) error {
			setContentType(req, policy.RequestPolicy)
			if err := throttle.wait(wait.InHook(req.Context())); err != nil {
				return err
			}
			t.progressOf(req.Context()).attempts = number
			return nil
		},
		Observe: t.observe,
	}
}

// observe calls Observe. It first converts the record of a single attempt to
// that of an attempt of a delivery.
func (t *Transport) observe(record awsretry.Attempt) {
	if p := t.progressOf(record.Request.Context()); p.number > 0 {
		if record.Number == 0 {
			return // Attempt returns the record
		}
		record = t.inDelivery(record, p.number)
		p.record = record
	}
	if t.Observe != nil {
		t.Observe(record)
	}
}

func (t *Transport) attemptTimeout() time.Duration {
	if t.AttemptTimeout == 0 {
		return defaultAttemptTimeout
	}
	return t.AttemptTimeout
}

// setContentType sets the content type of req, which must be a copy of the
// caller's request.
func setContentType(req *http.Request, policy *RequestPolicy) {
	if req.Header == nil {
		req.Header = http.Header{}
	}
	switch {
	case policy != nil && policy.HeaderContentType != "":
		req.Header.Set("Content-Type", policy.HeaderContentType)
	case req.Header.Get("Content-Type") == "":
		req.Header.Set("Content-Type", defaultContentType)
	}
}
