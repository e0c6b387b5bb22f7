package delivery

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/retrier"
)

// A Transport is an http.RoundTripper that delivers each request by a delivery policy, as Amazon SNS delivers to HTTP/S
// endpoints ("Message delivery retries"): what fails on the server's side (no connection, no answer in time, 429,
// 5xx) is tried again in the policy's four phases; a 2xx is a delivery, and every other answer a permanent failure. A
// Retry-After header is not looked at: the policy alone sets the pauses. The retries are made by an [awsretry.Transport], without
// a retry token bucket.
//
// The policy's throttle counts all attempts of the Transport, so use one for each endpoint. The zero value is ready to use. The fields
// are read at the first request and must not be changed from then on. A Transport is safe for concurrent use.
//
// RoundTrip returns the last answer, whatever its status, or an [*awsretry.Error]: also where the throttle leaves a retry no time before
// the context's deadline, because its wait is no part of the policy's pause.
//
// Redirects are not followed: to Amazon SNS they are a permanent failure like
// any other 3xx or 4xx. An http.Client follows them unless it is told not to, so
// set its CheckRedirect to a function that returns [http.ErrUseLastResponse], as
// in the example; Do then returns the redirect itself. Without it, RoundTrip
// refuses the request that follows the redirect with [ErrRedirect], because the
// delivery has failed already, and DeadLetter has it.
type Transport struct {
	Policy         *Policy           // nil: the default one; see Effective for a topic's
	Base           http.RoundTripper // sends each attempt; nil: awsretry's shared pooled transport
	AttemptTimeout time.Duration     // of each attempt, up to the end of its answer; 0: 15 s, as Amazon SNS has it

	// Jitter makes the policy's pauses random. A result outside 0 to the pause
	// counts as the nearer of the two. nil: each pause is spread by a tenth to
	// either side and never falls below minDelayTarget, so that the schedule
	// keeps its length.
	Jitter awsretry.Jitter

	// DeadLetter is called, exactly once, when a delivery has failed for good, before RoundTrip returns: also when the request's
	// context has ended, with a context that has its values and does not end. [DirQueue] makes one that keeps a file for each.
	// Its error comes back from RoundTrip joined to the delivery's own; a response is closed then.
	// It is called too when Base, Jitter or Observe panics, and the panic goes on
	// after it. It is never called for a request that was answered with a 2xx.
	// nil: what cannot be delivered is dropped.
	//
	// So that the body can be handed over, up to 1 MiB is held of one that has no GetBody and is no io.ReaderAt with a size, and
	// up to 1 MiB of the last answer's body is read ahead.
	DeadLetter func(context.Context, DeadLetter) error

	// Observe is called once for every attempt, after the decision on it. The attempt's Request may be a copy of the caller's.
	// nil: nobody is told.
	Observe func(awsretry.Attempt)

	mark
	starting sync.Mutex
	running  atomic.Pointer[awsretry.Transport] // makes the attempts; nil before the first request
}

// mark is an alias so that the embedded field is not exported.
type mark = retrier.Mark

// defaultAttemptTimeout is how long Amazon SNS waits for an endpoint's answer.
const defaultAttemptTimeout = 15 * time.Second

// ErrRedirect is in the error of a request with which an http.Client follows a
// redirect. The request is not sent.
var ErrRedirect = errors.New("delivery: a redirect is a permanent failure and is not followed")

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	inner, err := t.start()
	if err == nil && req.Response != nil { // only an http.Client that follows a redirect sets it
		err = fmt.Errorf("%w: answered %d %s", ErrRedirect, req.Response.StatusCode, http.StatusText(req.Response.StatusCode))
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

// CloseIdleConnections closes the idle connections of Base, where it has such a
// method. The fields may still be changed after it if no request was sent.
func (t *Transport) CloseIdleConnections() {
	if inner := t.running.Load(); inner != nil {
		inner.CloseIdleConnections()
		return
	}
	if base, ok := t.Base.(interface{ CloseIdleConnections() }); ok && !retrier.IsNil(t.Base) {
		base.CloseIdleConnections()
	}
}

// Validate reports what in the configuration makes no sense: nil, or an error that names each such field or attribute of the
// policy, its value and what is allowed. Of content types it lets pass those that raw message delivery allows. RoundTrip
// returns the same error before sending anything.
func (t *Transport) Validate() error {
	var faults []error
	if err := named("delivery: Transport.Policy.", t.Policy.faults(true)...); err != nil {
		faults = append(faults, err)
	}
	if t.AttemptTimeout < 0 {
		faults = append(faults, fmt.Errorf("delivery: Transport.AttemptTimeout is %v; it must be above 0, or 0 for %v", t.AttemptTimeout, defaultAttemptTimeout))
	}
	if err := retrier.CheckBase(t.Base); err != nil {
		faults = append(faults, fmt.Errorf("delivery: Transport.%w", err))
	}
	return errors.Join(faults...)
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
			class := classify(a)
			if class == awsretry.Success {
				t.progressOf(a.Request.Context()).delivered = true
			}
			return class
		},
		Backoff: awsretry.BackoffFunc(func(n int, _ awsretry.Class, _ time.Duration) time.Duration {
			if t.Jitter == nil {
				return schedule.jittered(n, rand.Float64())
			}
			pause := schedule.pause(n)
			if pause == 0 {
				return 0
			}
			return min(max(t.Jitter(pause), 0), pause)
		}),
		MaxRetryAfter: -1,
		Quota:         awsretry.QuotaConfig{Capacity: -1},
		Partition:     func(*http.Request) string { return "" }, // nothing is kept in one
		NestedRetries: true,                                     // the policy says how often, and no header of the request
		Prepare: func(req *http.Request, number int) error {
			setContentType(req, policy.RequestPolicy)
			if err := throttle.wait(req.Context()); err != nil {
				return err
			}
			t.progressOf(req.Context()).attempts = number
			return nil
		},
		Observe: t.Observe,
	}
}

func (t *Transport) attemptTimeout() time.Duration {
	if t.AttemptTimeout == 0 {
		return defaultAttemptTimeout
	}
	return t.AttemptTimeout
}

// classify is the policy of Amazon SNS, "Message delivery retries".
func classify(a *awsretry.Attempt) awsretry.Class {
	if a.Err != nil {
		class := awsretry.DefaultPolicy(a)
		if class == awsretry.Permanent && connectionFailed(a.Err) {
			return awsretry.Transient
		}
		return class
	}
	switch status := a.Response.StatusCode; {
	case delivered(a.Response):
		return awsretry.Success
	case status == http.StatusTooManyRequests:
		return awsretry.Throttled
	case status/100 == 5:
		return awsretry.Transient
	}
	return awsretry.Permanent
}

// connectionFailed reports whether err is the server's side's to mend, although it would not go away in the seconds that other
// policies retry for: its name, its certificate, its proxy. A delivery policy may go on for an hour or for days.
func connectionFailed(err error) bool {
	var (
		op          *net.OpError
		name        *net.DNSError
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		alert       tls.AlertError
		ech         *tls.ECHRejectionError
	)
	return errors.As(err, &op) || errors.As(err, &name) || errors.As(err, &certificate) || errors.As(err, &record) || errors.As(err, &alert) ||
		errors.As(err, &ech) || errors.Is(err, http.ErrSchemeMismatch) || handshakeFailed(err)
}

// handshakeFailed knows the complaints about a TLS handshake for which
// crypto/tls has no type, such as a version that is too old.
func handshakeFailed(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.HasPrefix(err.Error(), "tls: ") {
			return true
		}
	}
	return false
}

// setContentType changes req, which must not be the caller's.
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
