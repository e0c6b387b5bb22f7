package awsretry

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// prepare makes the request that is sent. The first attempt sends the caller's own where nothing has to differ in it.
func (c *call) prepare() error {
	number := c.number + 1
	c.told, c.closed, c.abandoned = false, false, false
	insideRetry := c.options != nil && c.options.attempt > 0
	if why := c.ended(); why != nil && c.first.engine == nil { // the wait for a token may have been long
		return c.error(StopCanceled, interruption(c.ctx, why, c.lastFailure()))
	}
	if number == 1 && !c.ownRequest && !insideRetry && !c.body.copied() {
		c.out = c.req
		c.body.open(true)
		return nil
	}
	ctx := c.ctx
	if number > 1 || insideRetry {
		c.record = newRecordContext(ctx, c.req, c.options, number)
		ctx = c.record
	}
	if c.hook == nil {
		c.out = c.req.WithContext(ctx)
	} else {
		c.out = c.req.Clone(ctx)
		c.out.Trailer = c.req.Trailer // the caller may fill it in while the body is read
		if c.out.Header == nil {
			c.out.Header = make(http.Header)
		}
	}
	c.out.Body = c.body.open(!c.mayRetry(number))
	c.out.GetBody = c.body.again()
	if c.out.Body != nil && c.out.Body != http.NoBody {
		c.held = c.out.Body
	}
	if c.headers && !c.outerRetries() && (c.hook != nil || !signed(c.req)) {
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
		if why := c.ended(); why != nil { // signing can take its time
			return c.error(StopCanceled, interruption(c.ctx, why, c.lastFailure()))
		}
	}
	return nil
}

// setHeaders sets those of the AWS SDKs and Tools Reference Guide's retry headers.
func (c *call) setHeaders(number int) {
	header := c.out.Header
	if c.hook == nil { // it is the caller's
		header = header.Clone()
	}
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

// signed reports whether an AWS signature covers the headers of setHeaders, so that a change would break it.
func signed(req *http.Request) bool {
	return strings.Contains(strings.ToLower(req.Header.Get("Authorization")), "amz-sdk-") ||
		req.URL != nil && strings.Contains(strings.ToLower(req.URL.Query().Get("X-Amz-SignedHeaders")), "amz-sdk-")
}

// invocationID is a random UUID (RFC 9562, version 4).
func invocationID() string {
	var u [16]byte
	rand.Read(u[:])
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
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

// send makes the attempt.
func (c *call) send(a *Attempt) {
	c.number++
	a.Request, a.Number, a.Partition = c.req, c.number, c.partition.name
	if c.observed {
		a.Start = time.Now()
	}
	base := c.base
	if c.newConn {
		base = c.fresh()
	}
	c.held, c.sending, c.sendTokenTaken = nil, true, false
	switch {
	case c.number == 1 && c.first.engine != nil:
		a.Response, a.Err = c.first.resp, c.first.err
	case c.timeout > 0:
		a.Response, a.Err = c.sendWithin(base)
	default:
		a.Response, a.Err = base.RoundTrip(c.out)
	}
	c.sending = false
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
	c.out, c.attempt = c.out.WithContext(ctx), ctx
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
		a.Code = findCode(c.ctx, c.attempt.left(), a.Response, c.req)
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
