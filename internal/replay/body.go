// Package replay lets several attempts send one request body.
package replay

import (
	"context"
	"net/http"
	"time"
)

// A Body gives each attempt of a call a copy of the request's body. There are
// five kinds of bodies:
//
//   - There is none, or it is http.NoBody.
//   - The request has GetBody, and the body is in memory. The first attempt
//     sends the caller's reader, and a retry sends a reader of the same bytes.
//     GetBody is not called.
//   - The body is an io.ReaderAt with a size, and the request has no GetBody. Each
//     attempt reads its own section.
//   - The body is any other stream, or has trailers. The beginning of what the
//     attempts read is kept. A retry sends that first, and then the rest of the
//     stream. If more was read than is kept, it needs a GetBody, which is called
//     after the previous reader has returned from its last Read and was closed, and
//     must return the same bytes.
//
// The caller's reader is closed once: when GetBody replaces it, when the call is
// over and the last copy is closed or at its end, or when the call has failed. So
// nothing waits for a Base that never closes its copies. A Read in progress may
// continue for up to a second after the call.
//
// The zero Body has no request. A Body must be used by one goroutine. Its copies
// may be read and closed by others.
type Body struct {
	req    *http.Request
	unsent bool   // no attempt has the caller's reader, so Release closes it
	memory Memory // of a body with GetBody
	file   *file
	stream *stream

	borrowed bool // file and stream are another Body's, which closes the caller's reader
}

// Own takes over the body of req. Release closes it unless an attempt has it.
func (b *Body) Own(req *http.Request) {
	b.req = req
	b.unsent = hasBody(req)
}

// Sent is Own for a request whose first attempt already has the body. memory
// must have remembered the body before that attempt, if it is in memory.
func (b *Body) Sent(req *http.Request, memory Memory) { b.req, b.memory = req, memory }

// Plan determines how several attempts can send the body. At most limit bytes
// of a stream are kept. If once is true, there will be only one attempt.
func (b *Body) Plan(limit int64, once bool) {
	if !b.unsent {
		return
	}
	if l, ok := b.req.Body.(*loan); ok {
		b.borrow(l, once)
		return
	}
	switch again := b.req.GetBody; {
	case len(b.req.Trailer) > 0:
	case again != nil && b.memory.Remember(b.req.Body):
		return
	case again != nil:
		if b.req.ContentLength > 0 {
			limit = min(limit, maxChecked)
		}
		b.stream = newStream(b.req, limit, false)
		b.stream.again = again
		return
	default:
		if b.file = newFile(b.req); b.file != nil {
			return
		}
	}
	if b.req.ContentLength > limit {
		limit = 0 // it cannot be kept whole
	}
	b.stream = newStream(b.req, limit, once)
}

// maxChecked is how much is kept of a body with a length and a GetBody, which
// http.NewRequest sets together: enough to check what GetBody returns before a
// retry. The rest is compared while it is sent. A GetBody without a length is that
// of another body: middleware that compresses or encrypts the body while it is sent
// leaves it in the clone of the request.
const maxChecked = 64 << 10

// Copied reports whether attempts read the caller's reader through copies.
func (b *Body) Copied() bool { return b.file != nil || b.stream != nil }

// Attach sets the body of req, the request of one attempt. Before a retry,
// Replayable and Freeze must have returned true.
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
	case b.unsent:
		b.unsent = false
		req.Body = b.req.Body
	case b.memory.known():
		memory := b.memory // b stays on the stack
		req.Body, _ = memory.reopen()
		req.GetBody = memory.reopen
	}
}

// SendOwn is Attach for a first attempt that sends the caller's own request. It
// requires that the body is not copied.
func (b *Body) SendOwn() { b.unsent = false }

// Replayable reports whether the body can be resent, as far as that is known
// before Freeze.
func (b *Body) Replayable() bool {
	switch {
	case b.stream != nil:
		return b.stream.complete()
	case b.file != nil:
		return b.file.unchanged()
	}
	return b.memory.known() || !hasBody(b.req)
}

// Quiet reports whether no Read of a one-shot body is in progress. It waits for
// a Read to return, until the timeout has passed or ctx has ended.
func (b *Body) Quiet(ctx context.Context, timeout time.Duration) bool {
	return b.stream == nil || b.stream.quiet(ctx, timeout)
}

// Freeze stops all copies from reading the caller's reader, so that the next
// attempt can send the body. It waits for a Read in progress, whose result is
// kept, until the timeout has passed or ctx has ended. Then it calls GetBody, if
// the request has it and the body is not in memory. Freeze returns how long it
// waited, and whether the next attempt can send the body. If the Read took too
// long, the newest copy can be read as before.
func (b *Body) Freeze(ctx context.Context, timeout time.Duration) (waited time.Duration, ok bool) {
	if b.stream == nil {
		return 0, true
	}
	return b.stream.freeze(ctx, timeout)
}

// Why returns why the body cannot be sent again, after Replayable or Freeze has
// returned false.
func (b *Body) Why() error {
	switch {
	case b.stream != nil:
		return b.stream.why()
	case b.file != nil:
		return errModified
	}
	return nil
}

// Err returns the error of the caller's reader, or nil if there was none or it is
// unknown.
func (b *Body) Err() error {
	switch {
	case b.stream != nil:
		return b.stream.failure()
	case b.file != nil:
		return b.file.err()
	}
	return nil
}

// Release ends the call, and closes the caller's reader if no attempt has it. If
// failed is true, the last attempt had no response, so that nothing more is sent
// and a copy that is still open ends.
func (b *Body) Release(failed bool) {
	switch {
	case b.borrowed:
	case b.file != nil:
		b.file.release(failed)
	case b.stream != nil:
		b.stream.release(failed)
	case b.unsent:
		b.req.Body.Close()
	}
	b.unsent = false
}

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }
