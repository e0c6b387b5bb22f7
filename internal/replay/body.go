// Package replay lets several attempts send one request body.
package replay

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// A Body gives each attempt of a call a copy of the request's body. There are
// four kinds of bodies:
//
//   - There is none, or it is http.NoBody.
//   - The request has GetBody. The first attempt sends the caller's reader, and
//     a retry sends a new one. A reader whose Close may not end its Read is
//     sent through a copy.
//   - The body is an io.ReaderAt with a size. Each attempt reads a section of
//     its own.
//   - The body is any other stream, or has trailers. What the attempts read is
//     kept. A retry sends that first, and then the rest of the stream.
//
// For the last two kinds the caller's reader is closed once: when the call is
// over and the last copy is closed or at its end, or when the call has failed.
// So nothing waits for a Base that never closes its copies.
//
// The zero Body has no request. One goroutine uses the Body, and others read
// and close its copies.
type Body struct {
	req    *http.Request
	unsent bool          // no attempt has the caller's reader, so that Release closes it
	next   io.ReadCloser // from GetBody, for the next attempt
	own    *detached     // the newest copy of a body with GetBody; nil if it needs none
	detach bool          // the caller's reader is sent through a copy although there is GetBody
	file   *file
	stream *stream

	borrowed bool // file and stream are another Body's, which closes the caller's reader
}

// Own takes over the body of req. Release closes it unless an attempt has it.
func (b *Body) Own(req *http.Request) {
	b.req = req
	b.unsent = hasBody(req)
}

// Sent is Own for a request whose first attempt already has the body.
func (b *Body) Sent(req *http.Request) { b.req = req }

// Share determines how several attempts can send the body. At most limit bytes
// of a stream are kept. If once is set, there will be one attempt only.
func (b *Body) Share(limit int64, once bool) {
	if !b.unsent {
		return
	}
	if l, ok := b.req.Body.(*loan); ok {
		b.borrow(l, once)
		return
	}
	trailers := len(b.req.Trailer) > 0
	if b.req.GetBody != nil && !trailers {
		b.detach = needsDetaching(b.req.Body)
		return
	}
	if !trailers {
		if b.file = newFile(b.req); b.file != nil {
			return
		}
	}
	if b.req.ContentLength > limit {
		limit = 0 // it cannot be kept whole
	}
	b.stream = newStream(b.req, limit, once)
}

// Copied reports whether attempts read the caller's reader through copies.
func (b *Body) Copied() bool { return b.file != nil || b.stream != nil || b.detach }

// Attach sets the body of req, the request of one attempt. A retry calls it
// once, after Rewind and Freeze have returned true.
func (b *Body) Attach(req *http.Request) {
	switch {
	case b.file != nil:
		b.unsent = false
		req.Body, req.GetBody = b.file.open(), b.file.reopen
	case b.stream != nil:
		b.unsent = false
		if b.req.Trailer != nil {
			req.Trailer = b.stream.announced.Clone()
		}
		req.Body, req.GetBody = b.stream.attach(req)
	case b.unsent && b.detach:
		b.unsent = false
		b.own = detach(req.Context(), b.req.Body)
		req.Body = b.own
	case b.unsent:
		b.unsent = false
		req.Body = b.req.Body
	case b.next != nil:
		if b.own != nil {
			b.own.Close() // a Base that failed may have left it open
			b.own = nil
		}
		if req.Body = b.next; needsDetaching(b.next) {
			b.own = detach(req.Context(), b.next)
			req.Body = b.own
		}
		b.next = nil
	}
}

// Take is Attach for a first attempt that sends the caller's own request. It
// requires that the body is not copied.
func (b *Body) Take() { b.unsent = false }

// Rewind reports whether the body can be sent again, as far as that is known
// before Freeze. If the request has GetBody, Rewind calls it.
func (b *Body) Rewind() bool {
	switch {
	case b.stream != nil:
		return b.stream.complete()
	case b.file != nil:
		return b.file.unchanged()
	case !hasBody(b.req):
		return true
	case b.req.GetBody == nil:
		return false
	}
	body, err := b.req.GetBody()
	if err != nil || body == nil {
		return false
	}
	b.next = body
	return true
}

// Repeatable reports whether another attempt could send the body, as far as
// that is known before Rewind and Freeze. It waits for a Read of a one-shot body
// that is in progress until the timeout or the end of ctx, and reports false if
// the Read takes longer.
func (b *Body) Repeatable(ctx context.Context, timeout time.Duration) bool {
	switch {
	case b.stream != nil:
		waitFor(ctx, b.stream.inProgress(), timeout)
		return b.stream.inProgress() == nil && b.stream.complete()
	case b.file != nil, !hasBody(b.req):
		return true
	}
	return b.req.GetBody != nil
}

// Freeze ends the reading of the caller's reader by the copies so far, so that
// the next attempt can send the body. It waits for a Read in progress, whose
// result is kept, until the timeout or the end of ctx. It returns how long it
// waited, and whether the next attempt can send the body. If not, the newest
// copy reads on as before.
func (b *Body) Freeze(ctx context.Context, timeout time.Duration) (waited time.Duration, ok bool) {
	if b.stream == nil {
		return 0, true
	}
	return b.stream.freeze(ctx, timeout)
}

// Err returns the error of the caller's reader, nil if there was none or it is
// not known.
func (b *Body) Err() error {
	switch {
	case b.stream != nil:
		return b.stream.failure()
	case b.file != nil:
		return b.file.err()
	}
	return nil
}

// Release ends the call. It closes what no attempt has. If failed is set, the
// last attempt had no response. Nothing more is sent then, and a copy that is
// still open ends.
func (b *Body) Release(failed bool) {
	if b.next != nil {
		b.next.Close()
		b.next = nil
	}
	switch {
	case b.borrowed:
	case b.file != nil:
		b.file.release(failed)
	case b.stream != nil:
		b.stream.release(failed)
	case b.unsent:
		b.req.Body.Close()
	case b.own != nil && failed:
		b.own.Close()
	case b.own != nil:
		b.own.over.Store(true)
	}
	b.unsent = false
}

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// A source is the caller's reader, which is closed once.
type source struct {
	io.ReadCloser

	mu      sync.Mutex // guards the fields below and those of the copies
	current any        // the newest copy
	over    bool       // the call has ended
	closed  bool
}

// claimClose marks the source closed and reports whether it was open. If so,
// its caller must close it, after it has unlocked mu: Close runs code of
// others. It requires that mu is held.
func (s *source) claimClose() bool {
	if s.closed {
		return false
	}
	s.closed = true
	return true
}
