package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// bodies are the bodies of a service's successful responses. They break off at a
// constant rate, so a part of a body breaks off less often than a whole one.
type bodies struct {
	time  time.Duration // of a whole body
	lasts float64       // mean time until one would break off, in nanoseconds
}

// bodySize is the size of a body in bytes. Each byte takes an equal part of its
// time.
const bodySize = 1 << 12

const etag = `"1"`

var errBrokeOff = errors.New("simulate: the response body breaks off")

func newBodies(b *scenario.Body) *bodies {
	if b == nil {
		return nil
	}
	return &bodies{time.Duration(b.Time), float64(b.Time) / -math.Log1p(-b.Broken)}
}

// until returns how long n bytes take.
func (b *bodies) until(n int) time.Duration { return b.time * time.Duration(n) / bodySize }

// response returns the response to a request for the object, or for the rest of
// it. Its body begins now.
func (v *service) response(req *http.Request, c *call, now time.Duration) *http.Response {
	first := rangeStart(req)
	part := &body{service: v, ctx: req.Context(), call: c, began: now, first: first, next: first, end: bodySize}
	lasts := exponential(random(c.id, uint64(c.attempts), forBody), v.bodies.lasts)
	if lasts < v.bodies.until(bodySize-first) {
		part.end = first + int(int64(lasts)*bodySize/int64(v.bodies.time))
		part.breaks = true
	}
	status := http.StatusOK
	header := http.Header{"Etag": {etag}, "Accept-Ranges": {"bytes"}}
	if first > 0 {
		status = http.StatusPartialContent
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, bodySize-1, bodySize))
	}
	resp := refusal{header: header}.response(status, req)
	resp.Body, resp.ContentLength = part, int64(bodySize-first)
	return resp
}

// rangeStart returns the first byte that the request asks for.
func rangeStart(req *http.Request) int {
	from, ok := strings.CutPrefix(req.Header.Get("Range"), "bytes=")
	first, err := strconv.Atoi(strings.TrimSuffix(from, "-"))
	if !ok || err != nil || first < 0 || first >= bodySize {
		return 0
	}
	return first
}

// A body arrives byte by byte. One goroutine reads it.
type body struct {
	service *service
	ctx     context.Context
	call    *call
	began   time.Duration // when the byte first began to arrive

	first, next, end int
	breaks           bool // at end
	arrived          bool // no more bytes will arrive
	err              error
}

// untilDone makes a response's body last until ctx ends, even if the request's
// context ends earlier.
func untilDone(ctx context.Context, resp *http.Response) {
	if b, ok := resp.Body.(*body); ok {
		b.ctx = ctx
	}
}

// Read implements io.Reader. The first call waits until all bytes have arrived.
func (b *body) Read(p []byte) (int, error) {
	if !b.arrived {
		b.arrive()
	}
	if b.next == b.end {
		return 0, b.err
	}
	n := min(len(p), b.end-b.next)
	b.next += n
	return n, nil
}

// arrive waits for the bytes.
func (b *body) arrive() {
	b.arrived, b.err = true, io.EOF
	grid, all := b.service.grid, b.service.bodies
	at := grid.near(b.call.owner, b.began+all.until(b.end-b.first))
	switch {
	case !grid.wait(b.ctx, b.call.owner, at):
		got := int(int64(grid.now()-b.began) * bodySize / int64(all.time))
		b.end, b.err = min(b.first+got, b.end), b.ctx.Err()
		b.service.record.count(b.service.record.series.Lost, grid.now())
	case b.breaks:
		b.err = errBrokeOff
		b.service.responded(at, 0)
	}
}

// Close implements io.Closer.
func (b *body) Close() error { return nil }
