package replay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// A stream is a body that several attempts read through copies. The stream keeps
// the beginning of what they read, up to a limit. A retry sends that, and then the
// rest of the caller's reader. If more was read, or the reader has failed, the
// stream calls GetBody, but only after the previous copy has stopped reading:
// GetBody may rewind a reader that all copies share. What it returns must have the
// same bytes, as far as they were read before.
//
// A goroutine reads the caller's reader, and exists only during a Read. So
// Close of a copy ends the copy's Read at once, as net/http expects, even if
// the caller's reader hangs. The result of that Read is kept for the next
// attempt. Nothing is read before a copy is read.
type stream struct {
	source
	again     func() (io.ReadCloser, error) // GetBody of the caller's request, or nil
	sized     bool                          // length is known
	length    int64                         // of the request
	limit     int64                         // of kept
	once      bool                          // one attempt only: nothing is kept, and Base gets no GetBody from the stream
	announced http.Header                   // the keys of the trailer, as the caller set them
	trailer   http.Header                   // the caller's trailer, which its reader sets

	// The fields below are guarded by mu.
	kept    []byte   // what was read so far, up to limit
	passing passing  // what was read after kept, if there is a GetBody
	end     error    // the error of the caller's reader after that, io.EOF included
	panic   any      // the panic of the caller's reader, for the Read that waits for it
	lost    bool     // kept was discarded: no attempt can start from the beginning
	fault   error    // why no attempt can start from the beginning, if lost
	taken   bool     // the body belongs to the next attempt, which has no copy yet
	reading *reading // the Read in progress; nil if there is none
	cut     bool     // end may be the result of a Close during the Read

	compared atomic.Int64 // bytes of readers from GetBody that were compared with kept
}

// errFrozen is returned by the Read of a copy if a later attempt owns the body.
var errFrozen = errors.New("awsretry: the attempt is over; a later one sends the rest of the body")

func newStream(req *http.Request, limit int64, once bool) *stream {
	return &stream{
		source:    source{ReadCloser: req.Body},
		sized:     req.ContentLength > 0,
		length:    req.ContentLength,
		limit:     limit,
		once:      once,
		lost:      once,
		announced: req.Trailer.Clone(),
		trailer:   req.Trailer,
	}
}

// attach opens a copy for req, the request of a new attempt. Earlier copies can
// no longer be read. attach also returns a GetBody for a Base that resends req
// by itself, or nil if nothing is kept for that.
func (s *stream) attach(req *http.Request) (io.ReadCloser, func() (io.ReadCloser, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := s.open(req)
	if s.once {
		return body, nil
	}
	return body, func() (io.ReadCloser, error) { return s.reopen(req) }
}

// open makes a copy for req and makes it the newest one. It requires that s.mu
// is held.
func (s *stream) open(req *http.Request) *copied {
	c := &copied{stream: s, req: req, ctx: req.Context(), trailer: req.Trailer, done: make(chan struct{})}
	s.current, s.taken = c, false
	return c
}

// complete is intact for callers that do not hold s.mu.
func (s *stream) complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.intact()
}

// quiet implements Body.Quiet. A body with GetBody and a length is always quiet: no
// caller writes it by hand.
func (s *stream) quiet(ctx context.Context, timeout time.Duration) bool {
	if s.again != nil && s.sized {
		return true
	}
	waitFor(ctx, s.inProgress(), timeout)
	return s.inProgress() == nil
}

// inProgress returns the Read in progress, or nil.
func (s *stream) inProgress() *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reading
}

// intact reports whether another attempt can send the body: all that was read is
// kept and the reader has not failed, or there is a GetBody. It requires that s.mu
// is held.
func (s *stream) intact() bool {
	switch {
	case s.lost || s.over:
		return false
	case s.failed(): // a GetBody beside an unknown length is that of another body
		return s.again != nil && s.sized
	}
	return s.passing.n == 0 || s.again != nil
}

// failed reports whether the caller's reader has failed. It requires that s.mu is
// held.
func (s *stream) failed() bool { return s.end != nil && s.end != io.EOF }

// rewinds reports whether a copy that starts from the beginning takes GetBody. It
// requires that s.mu is held.
func (s *stream) rewinds() bool { return s.passing.n > 0 || s.failed() }

// failure implements Body.Err.
func (s *stream) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end == io.EOF || s.cut || s.intact() {
		return nil
	}
	return s.end
}

// why implements Body.Why.
func (s *stream) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.fault != nil:
		return s.fault
	case s.reading != nil:
		return ErrBusy
	case s.failed():
		return s.end
	case s.lost:
		return ErrNotKept
	}
	return nil
}

// freeze implements Body.Freeze. It freezes the newest copy if the next attempt
// can send the body.
func (s *stream) freeze(ctx context.Context, timeout time.Duration) (waited time.Duration, ok bool) {
	start := time.Now()
	waitFor(ctx, s.beginFreeze(), timeout)
	old, rewinds, ok := s.endFreeze()
	if ok && rewinds {
		ok = s.rewind(ctx, old, max(timeout-time.Since(start), timeout/2)) == nil
	}
	return time.Since(start), ok
}

// beginFreeze freezes the newest copy until endFreeze. It returns the Read in
// progress, or nil.
func (s *stream) beginFreeze() *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.(*copied).frozen = s.intact()
	return s.reading
}

// endFreeze reports whether the newest copy stays frozen. If it does, the body
// belongs to the next attempt, and endFreeze begins to rewind it.
func (s *stream) endFreeze() (old io.Closer, rewinds, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.current.(*copied)
	c.frozen = s.reading == nil && s.intact()
	s.taken = c.frozen
	if !c.frozen {
		return nil, false, false
	}
	old, rewinds = s.beginRewind()
	return old, rewinds, true
}

func (s *stream) release(failed bool) { _ = closeNow(s.finish(failed)) }

// finish ends the call. It returns what must be closed, or nil.
func (s *stream) finish(failed bool) (toClose io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endCall()
	c, _ := s.current.(*copied)
	if c != nil {
		if failed {
			c.shut()
		}
		s.forget(c)
	}
	if failed || c == nil || c.closed || s.end != nil {
		return s.claimClose()
	}
	return nil
}

// forget discards what was kept if c, the newest copy, no longer needs it and
// no other copy will. It requires that s.mu is held.
func (s *stream) forget(c *copied) {
	read := c.pos == len(s.kept)
	exceeded := c.exceeded && int64(len(s.kept)) > s.limit
	if s.reading == nil && ((s.over || s.lost) && (read || c.closed) || exceeded && read && !c.frozen) {
		s.lost, c.pos = true, 0
		if s.kept = s.kept[:0]; cap(s.kept) > maxRead {
			s.kept = nil
		}
	}
}
