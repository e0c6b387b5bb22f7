package awsretry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A call is one RoundTrip: what its attempts share. It lives on the goroutine's stack.
type call struct {
	*engine
	first     plainAnswer   // the first attempt's, where it is made already
	req       *http.Request // the caller's; never changed
	ctx       context.Context
	options   *callOptions // nil where the context has none
	partition *partition
	body      payload
	observed  bool // somebody is to be told of the attempts

	number     int            // of the last attempt that was sent, from 1
	out        *http.Request  // what is sent
	record     *recordContext // of out, where it has one
	held       io.ReadCloser  // the body of out, until it is sent
	answer     *http.Response // that is neither discarded nor the caller's yet
	newConn    bool           // the next attempt is not to use the connection of the last one
	drawn      int            // tokens drawn for the attempt under way; put back where it is never made
	unpaid     int            // tokens to wait for in the pause
	sendToken  bool           // for the next attempt, taken already
	lastDelay  time.Duration  // the pause before the attempt under way
	lastErr    error          // the last failure, where it was a transport error
	lastCode   string         // else its status and code
	lastStatus int
	id         string // of the invocation, for SDKHeaders

	// Of the attempt under way.
	abandoned bool // the caller's context ended it
	told      bool // its observers were called
	closed    bool // its answer was closed
}

// begin finds what the request needs.
func (c *call) begin(t *Transport, req *http.Request) error {
	if c.first.engine == nil {
		c.body.own(req)
	} else {
		c.body.req = req
	}
	e, err := t.start()
	if err != nil {
		return err
	}
	c.engine, c.req, c.ctx = e, req, req.Context()
	if why := c.ended(); why != nil && c.first.engine == nil {
		return c.error(StopCanceled, interruption(c.ctx, why, nil))
	}
	c.options = optionsOf(c.ctx)
	c.observed = e.observe != nil || c.options != nil && c.options.observe != nil
	c.partition = e.partitionOf(req, c.options)
	if e.initialCost > 0 {
		if err := c.acquire(e.initialCost); err != nil {
			return err
		}
	}
	c.body.split(e.maxBuffer)
	return nil
}

// end runs on every way out, a panic's too.
func (c *call) end() {
	if c.drawn > 0 {
		c.partition.quota.Release(c.drawn)
	}
	if c.held != nil {
		c.held.Close()
	}
	if c.answer != nil {
		c.answer.Body.Close()
	}
	c.body.release()
}

func (c *call) ended() error { return ended(c.ctx, cancelOf(c.req)) }

// acquire draws tokens, waiting for them where Quota.Wait says so.
func (c *call) acquire(tokens int) error {
	if err := c.partition.quota.Acquire(c.ctx, tokens); err != nil {
		if errors.Is(err, ErrQuotaExceeded) {
			return c.error(StopQuota, err)
		}
		return c.error(StopCanceled, interruption(c.ctx, err, c.lastFailure()))
	}
	c.drawn = tokens
	return nil
}

// takeSendToken is adaptive mode's: it waits for the rate limiter.
func (c *call) takeSendToken(a *Attempt) error {
	limiter := c.partition.limiter
	if limiter == nil || c.sendToken {
		c.sendToken = false
		return nil
	}
	var start time.Time
	if c.observed {
		start = time.Now()
	}
	if err := limiter.Wait(c.ctx); err != nil {
		if errors.Is(err, ErrRateLimited) {
			return c.error(StopRateLimit, err)
		}
		return c.error(StopCanceled, interruption(c.ctx, err, c.lastFailure()))
	}
	if c.observed {
		a.Waited = time.Since(start)
	}
	return nil
}

// prepare makes the request that is sent. The first attempt sends the caller's own where nothing has to differ in it.
func (c *call) prepare() error {
	number := c.number + 1
	c.told, c.closed, c.abandoned = false, false, false
	insideRetry := c.options != nil && c.options.attempt > 0
	if number == 1 && !c.ownRequest && !insideRetry && !c.body.copied() {
		c.out = c.req
		c.body.open()
		return nil
	}
	ctx := c.ctx
	if number > 1 || insideRetry {
		c.record = newRecordContext(ctx, c.options, number)
		ctx = c.record
	}
	if c.hook == nil {
		c.out = c.req.WithContext(ctx)
	} else {
		c.out = c.req.Clone(ctx)
		c.out.Trailer = c.req.Trailer // the caller may fill it in while the body is read
	}
	c.out.Body = c.body.open()
	c.out.GetBody = c.body.again()
	if c.out.Body != nil && c.out.Body != http.NoBody {
		c.held = c.out.Body
	}
	if c.headers && (c.nested || !outerLoop(c.req)) {
		c.setHeaders(number)
	}
	if c.hook != nil {
		if err := c.hook(c.out, number); err != nil {
			err = fmt.Errorf("error from Prepare: %w", err)
			if last := c.lastFailure(); last != nil {
				err = fmt.Errorf("%w; before that: %w", err, last)
			}
			return c.error(StopPermanent, err)
		}
	}
	return nil
}

// setHeaders sets those of the AWS SDKs and Tools Reference Guide's retry headers.
func (c *call) setHeaders(number int) {
	header := c.req.Header.Clone()
	if header == nil {
		header = make(http.Header)
	}
	if c.id == "" {
		c.id = invocationID()
	}
	if len(header["Amz-Sdk-Invocation-Id"]) == 0 {
		header["Amz-Sdk-Invocation-Id"] = []string{c.id}
	}
	header["Amz-Sdk-Request"] = []string{"attempt=" + strconv.Itoa(number) + "; max=" + strconv.Itoa(c.maxAttempts())}
	c.out.Header = header
}

// invocationID is a random UUID (RFC 9562, version 4).
func invocationID() string {
	var u [16]byte
	rand.Read(u[:])
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// send makes the attempt.
func (c *call) send(a *Attempt) {
	c.number++
	a.Request, a.Number = c.req, c.number
	if c.observed {
		a.Start = time.Now()
	}
	base := c.base
	if c.newConn {
		base = c.fresh()
	}
	c.held = nil
	switch {
	case c.number == 1 && c.first.engine != nil:
		a.Response, a.Err = c.first.resp, c.first.err
	case c.timeout > 0:
		a.Response, a.Err = c.sendWithin(base)
	default:
		a.Response, a.Err = base.RoundTrip(c.out)
	}
	switch {
	case a.Err != nil && a.Response != nil:
		if a.Response.Body != nil {
			a.Response.Body.Close()
		}
		a.Response = nil
	case a.Err == nil && a.Response == nil:
		a.Err = errors.New("awsretry: Base returned neither a response nor an error")
	case a.Err == nil && a.Response.Body == nil:
		a.Response.Body = http.NoBody
	}
	c.answer = a.Response
}

// sendWithin makes the attempt with its time-out.
func (c *call) sendWithin(base http.RoundTripper) (*http.Response, error) {
	ctx := newAttemptContext(c.out.Context(), c.timeout)
	c.out = c.out.WithContext(ctx)
	sent := false
	defer func() {
		if !sent {
			ctx.end()
		}
	}()
	resp, err := base.RoundTrip(c.out)
	if err != nil {
		return resp, ctx.explain(err)
	}
	if resp != nil {
		ctx.bind(resp)
		sent = true
	}
	return resp, nil
}

// classify finds out what the answer means.
func (c *call) classify(a *Attempt) {
	switch {
	case a.Err == nil:
		a.Code = findCode(c.out.Context(), a.Response, c.req)
		a.Class = c.classOf(a)
	case c.ended() != nil:
		a.Class, c.abandoned = Permanent, true
	case c.body.readError() != nil:
		a.Class = Permanent
	default:
		a.Class = c.classOf(a)
	}
	if !a.Start.IsZero() {
		a.Elapsed = time.Since(a.Start)
	}
}

func (c *call) classOf(a *Attempt) Class {
	if c.policy == nil {
		return DefaultPolicy(a)
	}
	shown := *a // the policy may keep it, a stays on the stack
	return c.policy(&shown)
}

// keepBooks tells the buckets how the attempt went.
func (c *call) keepBooks(a *Attempt) {
	if c.partition.limiter != nil && !c.abandoned {
		c.partition.limiter.Update(a.Class == Throttled)
	}
	if a.Class == Success {
		if a.Number == 1 {
			c.partition.quota.Release(c.increment)
		} else {
			c.partition.quota.Release(c.drawn)
		}
	}
	c.drawn = 0
}

// decide says whether another attempt follows, and draws the tokens for it.
func (c *call) decide(a *Attempt) bool {
	a.Stop = c.stop(a)
	return a.Stop == ""
}

func (c *call) stop(a *Attempt) Stop {
	switch {
	case c.abandoned:
		return StopCanceled
	case a.Class == Success:
		return StopSuccess
	case !a.Class.Retryable():
		return StopPermanent
	case c.options != nil && c.options.noRetry:
		return StopDisabled
	case !c.nested && outerLoop(c.req):
		return StopOuterRetry
	case c.ended() != nil:
		return StopCanceled
	case a.Number >= c.maxAttempts():
		return StopMaxAttempts
	}
	delay, short := c.delay(a)
	if !short {
		return StopRetryAfter
	}
	if deadline, ok := c.ctx.Deadline(); ok && !time.Now().Add(delay).Before(deadline) {
		return StopDeadline
	}
	if !c.body.canRetry() {
		return StopBody
	}
	if !c.draw(a.Class) {
		if c.longPolls() {
			a.Delay = delay
		}
		return StopQuota
	}
	a.Delay = delay
	return ""
}

// draw draws the tokens for a retry, or leaves them to the pause where they are to be waited for.
func (c *call) draw(class Class) bool {
	cost := c.costs.of(class)
	if c.waitTokens && cost <= c.capacity {
		c.unpaid = cost
		return true
	}
	if c.partition.quota.Acquire(c.ctx, cost) != nil {
		return false
	}
	c.drawn = cost
	return true
}

// pause sleeps, and reports whether the next attempt is to be made.
func (c *call) pause(a *Attempt) bool {
	if !c.body.commit() {
		a.Stop, a.Delay = StopBody, 0
		return false
	}
	if c.failFast { // the answer is kept: it goes back where the rate limiter refuses
		if !c.sleep(a.Delay) {
			a.Stop = StopCanceled
			return false
		}
		if c.partition.limiter.Wait(c.ctx) != nil {
			if a.Stop = StopRateLimit; c.ended() != nil {
				a.Stop = StopCanceled
			}
			return false
		}
		c.sendToken = true
		c.tell(a)
		c.discard(a)
	} else {
		c.tell(a)
		c.discard(a)
		if c.unpaid > 0 && c.acquire(c.unpaid) != nil || !c.sleep(a.Delay) {
			a.Stop = StopCanceled
			return false
		}
	}
	c.body.wait(c.ctx.Done(), cancelOf(c.req))
	if c.ended() != nil {
		a.Stop = StopCanceled
		return false
	}
	c.lastDelay, c.unpaid = a.Delay, 0
	return true
}

// sleep reports whether the whole pause was slept.
func (c *call) sleep(d time.Duration) bool {
	if d <= 0 {
		return c.ended() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.ctx.Done():
	case <-cancelOf(c.req):
	}
	return false
}

// tell calls the observers, once for each attempt.
func (c *call) tell(a *Attempt) {
	if !c.observed || c.told {
		return
	}
	c.told = true
	if c.observe != nil {
		c.observe(*a)
	}
	if c.options != nil && c.options.observe != nil {
		c.options.observe(*a)
	}
}

// discard ends an answer that another attempt replaces. Its connection is used again after throttling, and generally not
// after a transient failure (AWS SDKs and Tools Reference Guide, "Retry behavior"); the 2026 revision uses it always.
func (c *call) discard(a *Attempt) {
	c.lastErr = a.Err
	if a.Err != nil {
		c.newConn = false
		return
	}
	reuse := a.Class == Throttled || c.revision == Revision2026
	c.newConn = !reuse && c.fresh != nil && a.Response.ProtoMajor == 1
	c.lastStatus, c.lastCode = a.Response.StatusCode, a.Code
	c.closed, c.answer = true, nil
	discard(c.ctx, a.Response, reuse)
}

// finish returns the last answer.
func (c *call) finish(a *Attempt) (*http.Response, error) {
	c.tell(a)
	if a.Stop == StopQuota && a.Delay > 0 {
		c.sleep(a.Delay) // so that the loop of a long-polling caller does not spin
	}
	if a.Err != nil || c.closed {
		err := a.Err
		if why := c.ended(); why != nil && a.Stop == StopCanceled {
			if err == nil {
				err = c.lastFailure()
			}
			err = interruption(c.ctx, why, err)
		}
		return nil, c.error(a.Stop, err)
	}
	if a.Number > 1 || a.Class.Retryable() {
		c.keepRecord(a)
	}
	c.answer = nil
	return a.Response, nil
}

// keepRecord leaves the record of the last attempt to Outcome, in the context of the response's request.
func (c *call) keepRecord(a *Attempt) {
	sent := a.Response.Request
	switch {
	case c.record == nil:
		if sent == nil {
			sent = c.req
		}
		c.record = newRecordContext(c.ctx, c.options, 0)
		a.Response.Request = sent.WithContext(c.record)
	case sent == nil, sent != c.out && sent.Context().Value(recordKey{}) != any(c.record):
		a.Response.Request = c.out
	}
	c.record.set(a)
}

// lastFailure is the attempt's before the one under way, whose answer is closed; nil where there is none.
func (c *call) lastFailure() error {
	if c.lastErr == nil && c.lastStatus != 0 {
		return &answerError{c.lastStatus, c.lastCode}
	}
	return c.lastErr
}

func (c *call) error(stop Stop, err error) error {
	e := &Error{Attempts: c.number, Stop: stop, Err: err}
	if c.req.URL != nil {
		e.query = c.req.URL.RawQuery
	}
	return e
}

// outerLoop reports whether the request is an attempt of an AWS SDK that retries it itself.
func outerLoop(req *http.Request) bool {
	for _, value := range req.Header["Amz-Sdk-Request"] {
		for field := range strings.SplitSeq(value, ";") {
			name, count, _ := strings.Cut(strings.TrimSpace(field), "=")
			if limit, err := strconv.Atoi(strings.TrimSpace(count)); err == nil && name == "max" && limit > 1 {
				return true
			}
		}
	}
	return false
}
