package delivery

import (
	"context"
	"io"
	"net/http"
	"time"
)

// maxKept limits how much of a one-shot request body is buffered, in bytes, for
// the retries and the dead letter together.
const maxKept = 1 << 20

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// outgoing returns the request that the inner Transport sends. Its body is lent
// by d.body, which buffers what the attempts read of a stream, so that the
// inner Transport buffers nothing.
func (d *delivery) outgoing() *http.Request {
	out := d.req.WithContext(context.WithValue(d.req.Context(), progressKey{d.Transport}, &d.progress))
	if hasBody(d.req) {
		d.body.Own(d.req)
		d.body.Plan(maxKept, false)
		d.body.Lend(out)
	}
	return out
}

// giveBody sets the body of the dead letter's request.
func (d *delivery) giveBody(dead *http.Request) {
	if !hasBody(d.req) {
		dead.Body = http.NoBody
		return
	}
	if open := d.body.Whole(); open != nil {
		dead.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(open()), nil }
		dead.Body, _ = dead.GetBody()
		return
	}
	open := func() (io.ReadCloser, error) { return d.reopen(dead.Context()) }
	body, err := open()
	switch {
	case err != nil:
		dead.Body, dead.GetBody = lostBody{err}, nil
	case d.req.GetBody != nil:
		dead.Body, dead.GetBody = body, open
	default:
		dead.Body = body
	}
}

// reopen returns the body from GetBody, or the buffered part of a stream
// followed by the rest. It returns an error if Base may still read the body.
func (d *delivery) reopen(ctx context.Context) (io.ReadCloser, error) {
	if !d.bodyFree && !d.body.Idle() {
		return nil, ErrBody
	}
	if _, ok := d.body.Freeze(ctx, d.attemptTimeout()); !ok {
		return nil, lost(d.body.Err())
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	again := d.req.WithContext(ctx)
	d.body.Attach(again)
	return &patientReader{
		src:    again.Body,
		giveUp: giveUp,
		idle:   d.attemptTimeout(),
		until:  time.Now().Add(maxReading),
	}, nil
}
