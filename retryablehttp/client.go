// Package retryablehttp provides the API of
// github.com/hashicorp/go-retryablehttp v0.7.8 over an [awsretry.Transport], so
// that a program changes an import and keeps its code. It was written from the
// documentation of that package. The README has a table of the differences.
//
// What it adds: a retry token bucket ends retries in an outage, request bodies
// are sent as they are read instead of being read into memory first, a
// Retry-After is obeyed for at most a minute, and [Client.Transport] gives access to
// the other settings.
package retryablehttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"example.com/awsretry"
	"github.com/hashicorp/go-cleanhttp"
)

// A Client makes requests with retries. NewClient returns one with the defaults;
// the zero Client does not retry. Its fields must not be changed during a
// request. A Client is safe for concurrent use. It keeps its retry token buckets for
// as long as it lives, so use one Client for many requests.
type Client struct {
	HTTPClient *http.Client // sends each attempt, with its redirects; nil: the first request sets a pooled client
	Logger     any          // a Logger or a LeveledLogger; nil: nothing is logged

	RetryWaitMin time.Duration // the shortest delay before a retry, for Backoff
	RetryWaitMax time.Duration // the longest, for Backoff
	RetryMax     int           // retries, not counting the first attempt; 0 or less: none

	RequestLogHook  RequestLogHook  // called before each attempt; nil: not called
	ResponseLogHook ResponseLogHook // called with the response of each attempt; nil: not called
	CheckRetry      CheckRetry      // decides after each attempt whether another follows; nil: DefaultRetryPolicy
	Backoff         Backoff         // computes the delay before each retry; nil: DefaultBackoff
	ErrorHandler    ErrorHandler    // called when a request is given up; nil: Do returns an error
	PrepareRetry    PrepareRetry    // called before each retry; nil: not called

	once      sync.Once
	transport *awsretry.Transport
}

// The defaults of NewClient, as those of go-retryablehttp v0.7.8.
const (
	defaultRetryWaitMin = time.Second
	defaultRetryWaitMax = 30 * time.Second
	defaultRetryMax     = 4
)

// NewClient returns a Client that retries 4 times, after delays of 1 to 30 s, and
// logs to standard error.
func NewClient() *Client {
	return &Client{
		HTTPClient:   newHTTPClient(),
		Logger:       log.New(os.Stderr, "", log.LstdFlags),
		RetryWaitMin: defaultRetryWaitMin,
		RetryWaitMax: defaultRetryWaitMax,
		RetryMax:     defaultRetryMax,
		CheckRetry:   DefaultRetryPolicy,
		Backoff:      DefaultBackoff,
	}
}

// newHTTPClient returns the HTTPClient of NewClient. Its HTTP/2 connections are
// pinged after 15 s without a frame, and closed if no reply comes within 5 s.
func newHTTPClient() *http.Client {
	t := cleanhttp.DefaultPooledTransport()
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second}
	return &http.Client{Transport: t}
}

// ErrorHandler is called when a request is given up, with the last response, which
// may be nil, the last error, which may be nil too, and the number of attempts. Do
// returns what it returns. It must close the response's body, or return the
// response.
type ErrorHandler func(resp *http.Response, err error, numTries int) (*http.Response, error)

// PassthroughErrorHandler is an ErrorHandler that returns the last response, with
// its body, and the last error.
func PassthroughErrorHandler(resp *http.Response, err error, _ int) (*http.Response, error) {
	return resp, err
}

// PrepareRetry changes a request before it is sent again, for example to sign it.
// The request shares its headers with that of the caller. If it returns an error,
// there is no retry.
type PrepareRetry func(req *http.Request) error

// Transport returns the Transport that makes the attempts of c. Its fields may be
// changed before the first request: Quota.Capacity -1 turns the retry token bucket
// off, Mode and RateLimit pace attempts, Observe sees each.
//
// MaxAttempts, Policy and Backoff are for requests that the Transport gets without
// Do. Do uses RetryMax, CheckRetry and Client's Backoff. MaxRetryAfter is -1, because
// Client's Backoff obeys Retry-After; if it is 0 or above, Transport does.
// ShareRetryAfter, RetryAfter and RetryAfterSpread need that. What Transport
// changes in an attempt, with Prepare for example, replaces what the hooks of Client
// set in the same headers or in the URL. With Resume, CheckRetry is also asked about
// a body that breaks off, and a request for the rest is an attempt like any other.
// Do returns an error for settings that it cannot obey: another Base, Peek, and
// Resume for a request with a ResponseHandlerFunc.
//
// The Transport is an http.RoundTripper, which a program can use without this
// package.
func (c *Client) Transport() *awsretry.Transport {
	c.once.Do(func() {
		if c.HTTPClient == nil {
			c.HTTPClient = newHTTPClient()
		}
		c.transport = &awsretry.Transport{Base: &base{c}, MaxRetryAfter: -1} // Retry-After is for Backoff
	})
	return c.transport
}

// Do sends a request, with retries. If CheckRetry ends the retries without an
// error, Do returns the response, whatever its status. If it gives up, it closes
// the last response and returns an error, unless there is an ErrorHandler. A
// request whose body is an io.Reader alone can be sent by one Do only.
func (c *Client) Do(req *Request) (*http.Response, error) {
	logger, err := c.logger()
	if err = firstOf(err, c.unfit(req)); err != nil {
		req.close()
		return nil, err
	}
	out, err := req.open()
	if err != nil {
		return nil, err
	}
	call := &call{Client: c, log: logger, req: req}
	call.given = out.WithContext(call.context())
	resp, err := c.Transport().RoundTrip(call.given)
	resp, err = call.result(resp, err)
	own := *req // for the rest of the body, which may be requested when the caller uses req again
	call.req = &own
	return resp, err
}

// Get sends a GET request.
func (c *Client) Get(url string) (*http.Response, error) { return c.send(http.MethodGet, url, "", nil) }

// Head sends a HEAD request.
func (c *Client) Head(url string) (*http.Response, error) {
	return c.send(http.MethodHead, url, "", nil)
}

// Post sends a POST request with the Content-Type bodyType. body is as for
// NewRequest.
func (c *Client) Post(url, bodyType string, body any) (*http.Response, error) {
	return c.send(http.MethodPost, url, bodyType, body)
}

// PostForm sends a POST request with the values of a form as its body.
func (c *Client) PostForm(url string, data url.Values) (*http.Response, error) {
	return c.Post(url, "application/x-www-form-urlencoded", strings.NewReader(data.Encode()))
}

func (c *Client) send(method, url, bodyType string, body any) (*http.Response, error) {
	req, err := NewRequest(method, url, body)
	if err != nil {
		return nil, err
	}
	if bodyType != "" {
		req.Header.Set("Content-Type", bodyType)
	}
	return c.Do(req)
}

// StandardClient returns an http.Client that sends through c.
func (c *Client) StandardClient() *http.Client {
	return &http.Client{Transport: &RoundTripper{Client: c}}
}

// defaultClient is that of the functions Get, Head, Post and PostForm.
var defaultClient = sync.OnceValue(NewClient)

// Get is Client.Get of a client with the defaults, which all calls share.
func Get(url string) (*http.Response, error) { return defaultClient().Get(url) }

// Head is Client.Head of a client with the defaults, which all calls share.
func Head(url string) (*http.Response, error) { return defaultClient().Head(url) }

// Post is Client.Post of a client with the defaults, which all calls share.
func Post(url, bodyType string, body any) (*http.Response, error) {
	return defaultClient().Post(url, bodyType, body)
}

// PostForm is Client.PostForm of a client with the defaults, which all calls
// share.
func PostForm(url string, data url.Values) (*http.Response, error) {
	return defaultClient().PostForm(url, data)
}

// A call is a request of Do. One goroutine uses it: Transport makes the attempts
// of a request one after the other.
type call struct {
	*Client
	log      logger
	req      *Request
	given    *http.Request // what Transport got
	attempts int           // that were made
	last     outcome
}

// An outcome is that of an attempt, and what CheckRetry said of it.
type outcome struct {
	resp                  *http.Response
	err, handled, checked error // of HTTPClient, the response handler and CheckRetry
	unprepared            error // of PrepareRetry, before the attempt
	retry                 bool
}

type callKey struct{}

// context returns the context of the request for Transport.
func (c *call) context() context.Context {
	ctx := context.WithValue(c.req.Context(), callKey{}, c)
	ctx = awsretry.WithMaxAttempts(ctx, c.maxAttempts())
	ctx = awsretry.WithPolicy(ctx, c.classify)
	ctx = awsretry.WithBackoff(ctx, awsretry.BackoffFunc(c.delay))
	if c.log == (logger{}) {
		return ctx
	}
	return awsretry.WithObserver(ctx, func(a awsretry.Attempt) {
		if a.Stop == "" {
			c.log.retrying(c, a.Delay)
		}
	})
}

func (c *call) maxAttempts() int { return min(max(c.RetryMax, 0), math.MaxInt-1) + 1 }

// classify is the Policy: what CheckRetry said. The class determines the cost of
// a retry.
func (c *call) classify(a *awsretry.Attempt) awsretry.Class {
	if o := c.last; a.Err != nil && o.resp != nil && o.err == nil && o.unprepared == nil { // its body broke off
		c.last = outcome{err: a.Err}
		c.check(a.Err)
	}
	class := awsretry.DefaultPolicy(a)
	switch {
	case c.last.retry && !class.Retryable():
		return awsretry.Transient
	case !c.last.retry && class.Retryable():
		return awsretry.Permanent
	}
	return class
}

func (c *call) delay(n int, _ awsretry.Class, _ time.Duration) time.Duration {
	backoff := c.Backoff
	if backoff == nil {
		backoff = DefaultBackoff
	}
	return backoff(c.RetryWaitMin, c.RetryWaitMax, n, c.last.resp)
}

// result returns what Do returns after Transport has returned this.
func (c *call) result(resp *http.Response, err error) (*http.Response, error) {
	o := c.last
	if o.resp != nil && resp == nil { // HTTPClient returned it with an error, such as of CheckRedirect
		resp = o.resp
	}
	failure := firstOf(o.unprepared, o.checked, o.handled, o.err)
	stop := stopOf(resp, err)
	switch {
	case c.attempts > 0 && !o.retry && failure == nil && err == nil:
		return resp, nil
	case c.attempts == 0: // nothing was sent
		failure = causeOf(err)
	case o.retry && stop == awsretry.StopCanceled: // during the delay
		discard(resp)
		return nil, c.req.Context().Err()
	case o.retry && stop == awsretry.StopPermanent && err != nil: // of Prepare
		failure = causeOf(err)
	case o.retry:
		failure = why(stop, failure)
	case failure == nil:
		failure = causeOf(err)
	}
	if c.ErrorHandler != nil {
		return c.ErrorHandler(resp, failure, c.attempts)
	}
	discard(resp)
	return nil, &giveUpError{method: c.req.Method, url: c.req.URL, attempts: c.attempts, err: failure}
}

// A giveUpError is the error of a request that was given up. Its text has no
// query and no password.
type giveUpError struct {
	method   string
	url      *url.URL
	attempts int
	err      error // may be nil
}

func (e *giveUpError) Error() string {
	text := fmt.Sprintf("%s %s giving up after %d attempt(s)", e.method, redacted(e.url), e.attempts)
	if e.err != nil {
		text += ": " + textOf(e.err)
	}
	return text
}

func (e *giveUpError) Unwrap() error { return e.err }

// Timeout reports whether the last attempt ended with a timeout.
func (e *giveUpError) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.err, &t) && t.Timeout()
}

// The reasons why there is no retry although CheckRetry asked for one.
var (
	errBody       = errors.New("the request's body cannot be sent again")
	errRetryAfter = errors.New("Retry-After asks for a longer delay than the Transport's MaxRetryAfter")
	errDeadline   = fmt.Errorf("the delay would end after the context's deadline: %w", context.DeadlineExceeded)
)

// why returns failure with the reason why no attempt followed.
func why(stop awsretry.Stop, failure error) error {
	var why error
	switch stop {
	case awsretry.StopQuota:
		why = awsretry.ErrQuotaExceeded
	case awsretry.StopRateLimit:
		why = awsretry.ErrRateLimited
	case awsretry.StopBody:
		why = errBody
	case awsretry.StopDeadline:
		why = errDeadline
	case awsretry.StopRetryAfter:
		why = errRetryAfter
	}
	switch {
	case why == nil:
		return failure
	case failure == nil:
		return why
	}
	return fmt.Errorf("%w: %w", why, failure)
}

// causeOf returns the error that an error of Transport wraps, or err itself.
func causeOf(err error) error {
	if gaveUp := (*awsretry.Error)(nil); errors.As(err, &gaveUp) {
		return gaveUp.Err
	}
	return err
}

// stopOf returns why no attempt followed, of what Transport returned.
func stopOf(resp *http.Response, err error) awsretry.Stop {
	if gaveUp := (*awsretry.Error)(nil); errors.As(err, &gaveUp) {
		return gaveUp.Stop
	}
	if resp != nil {
		if a, ok := awsretry.Outcome(resp); ok {
			return a.Stop
		}
	}
	return ""
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// maxDiscard limits how much of a response that is dropped is read, so that its
// connection can be used again.
const maxDiscard = 4 << 10

func discard(resp *http.Response) {
	if resp != nil && resp.Body != nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxDiscard))
		resp.Body.Close()
	}
}
