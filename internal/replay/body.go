// Package replay lets several attempts send one request body.
package replay

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// A Body hands out a request's body, one copy for each attempt. There are four
// kinds:
//
//   - no body, or http.NoBody;
//   - GetBody: the first attempt sends the caller's reader, a retry a new one,
//     each through a copy where its Close may not end a Read;
//   - an io.ReaderAt with a size: each attempt reads a section of its own;
//   - any other stream, and any body with trailers: what the attempts read is
//     kept, and a retry sends that, then the rest.
//
// In the last two the caller's reader is closed once: when the call is over and
// its last copy is closed or at its end, or when the call has failed. A Base that
// never closes its copies therefore delays nothing.
//
// The zero Body has no request. A Body is used by one goroutine; its copies are
// read and closed by others.
type Body struct {
	req    *http.Request
	unsent bool          // the caller's own reader is ours to close
	next   io.ReadCloser // from GetBody, for the next attempt
	own    *detached     // the copy that an attempt has, where there is GetBody
	detach bool          // such a copy is needed
	file   *file
	stream *stream

	borrowed bool // file and stream are another Body's, which closes the caller's reader
}

// Own takes over the body of req: Release closes it unless an attempt gets it.
func (b *Body) Own(req *http.Request) {
	b.req = req
	b.unsent = hasBody(req)
}

// Sent says that the first attempt has the body of req already.
func (b *Body) Sent(req *http.Request) { b.req = req }

// Share finds out how several attempts can send the body. At most limit bytes
// of a stream are kept; once says that there will be one attempt only.
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
		limit = 0 // it could not be kept whole
	}
	b.stream = newStream(b.req, limit, once)
}

// Copied reports whether attempts read the caller's body through copies.
func (b *Body) Copied() bool { return b.file != nil || b.stream != nil || b.detach }

// Attach gives req, the request of one attempt, its copy of the body. A retry
// may call it once after each CanRetry and Freeze that allowed the attempt.
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

// Take is Attach for the first attempt of a body that is not copied, where the
// caller's own request is sent.
func (b *Body) Take() { b.unsent = false }

// CanRetry reports whether the body can be sent again, as far as is known
// before Freeze. It obtains the next copy where GetBody makes it.
func (b *Body) CanRetry() bool {
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

// Freeze makes certain that the next attempt can send the body: from then on the
// copies that were handed out read no more of the caller's reader. A Read of it
// that is under way is waited for, until the timeout or the end of ctx, and what
// it brings is kept. Freeze reports how long it waited, and whether the body is
// complete; where it is not, the last copy goes on as if nothing had happened.
func (b *Body) Freeze(ctx context.Context, timeout time.Duration) (waited time.Duration, ok bool) {
	if b.stream == nil {
		return 0, true
	}
	return b.stream.freeze(ctx, timeout)
}

// Err returns the failure of the caller's own reader, where it is known.
func (b *Body) Err() error {
	switch {
	case b.stream != nil:
		return b.stream.failure()
	case b.file != nil:
		return b.file.err()
	}
	return nil
}

// Release ends the call. What was not handed out is closed. failed says that no
// response came of the last attempt, so that nothing more is to be sent: a copy
// that is still open is then at its end.
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

// A source is the caller's reader, and closes it once.
type source struct {
	io.ReadCloser

	mu      sync.Mutex // guards the fields below, and those of the copies
	current any        // the newest copy
	over    bool       // the call has ended
	closed  bool
}

// mayClose reports whether the source is to be closed now, and marks it closed.
// It requires that mu is held. The Close itself is foreign code and runs
// without mu.
func (s *source) mayClose() bool {
	if s.closed {
		return false
	}
	s.closed = true
	return true
}
