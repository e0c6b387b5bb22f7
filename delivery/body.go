package delivery

import (
	"context"
	"io"
	"net/http"
	"time"

	"example.com/awsretry/internal/replay"
)

// maxKept is how much is kept of a request body that can be read only once, for
// the retries and for the dead letter together.
const maxKept = 1 << 20

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// outgoing returns the request that the inner Transport sends. If the body has
// no GetBody, d.body keeps what the attempts read, so that the inner Transport
// keeps nothing.
func (d *delivery) outgoing() *http.Request {
	out := d.req.WithContext(context.WithValue(d.req.Context(), progressKey{d.Transport}, &d.progress))
	if hasBody(d.req) && d.req.GetBody == nil {
		d.body.Own(d.req)
		d.body.Share(maxKept, false)
		d.body.Lend(out)
	}
	return out
}

// giveBody gives the dead letter's request the body.
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
	ctx, giveUp := context.WithCancelCause(dead.Context())
	src, err := d.reopen(ctx)
	if err != nil {
		giveUp(nil)
		dead.Body, dead.GetBody = lostBody{err}, nil
		return
	}
	dead.Body = &patientReader{
		src:    src,
		giveUp: giveUp,
		idle:   d.attemptTimeout(),
		until:  time.Now().Add(maxReading),
	}
}

// reopen returns the body from GetBody, or what is kept of a stream and then
// the rest. The end of ctx ends a Read of it.
func (d *delivery) reopen(ctx context.Context) (io.ReadCloser, error) {
	if d.req.GetBody != nil {
		src, err := d.req.GetBody()
		if err != nil || src == nil {
			return nil, lost(err)
		}
		return replay.Detach(ctx, src), nil
	}
	if !d.bodyFree && !d.body.Idle() {
		return nil, ErrBody
	}
	if _, ok := d.body.Freeze(ctx, d.attemptTimeout()); !ok {
		return nil, lost(d.body.Err())
	}
	again := d.req.WithContext(ctx)
	d.body.Attach(again)
	return again.Body, nil
}
