package replay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// errFrozen is returned by the Read of a copy if a later attempt has the body.
var errFrozen = errors.New("awsretry: the attempt is over; a later one sends the rest of the body")

// A stream is a body that several attempts read through copies. It keeps what
// they read of a body that cannot be read twice. If the request has GetBody, it
// keeps nothing and opens the body again, when the copy before is no longer
// read, because GetBody may rewind the reader in use.
//
// A goroutine reads the caller's reader. It exists only during a Read. So Close
// of a copy ends the copy's Read at once, as net/http expects, even if the
// caller's reader hangs, and the result of its Read is kept for the next
// attempt. Nothing is read before a copy is read.
type stream struct {
	source
	again     func() (io.ReadCloser, error) // GetBody of the caller's request; if nil, what is read is kept
	limit     int64
	once      bool        // one attempt only: nothing is kept, and Base gets no GetBody of ours
	announced http.Header // the keys of the trailer, as the caller set them
	trailer   http.Header // the caller's trailer, which its reader fills in

	// The fields below are guarded by mu.
	kept    []byte   // what was read so far
	end     error    // the error of the caller's reader after kept, io.EOF included
	panic   any      // the panic of the caller's reader, for the Read that waits for it
	lost    bool     // kept was discarded: no attempt can start from the beginning
	taken   bool     // the body belongs to the next attempt, which has no copy yet
	reading *reading // the Read in progress; nil if there is none
	cut     bool     // end may be the result of a Close during the Read
}

func newStream(req *http.Request, limit int64, once bool) *stream {
	return &stream{
		source:    source{ReadCloser: req.Body},
		limit:     limit,
		once:      once,
		lost:      once,
		announced: req.Trailer.Clone(),
		trailer:   req.Trailer,
	}
}

// attach opens a copy for req, the request of a new attempt. The copies before
// it are not read any more. attach also returns a GetBody for a Base that sends
// req again by itself, or nil if nothing is kept for that.
func (s *stream) attach(req *http.Request) (io.ReadCloser, func() (io.ReadCloser, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := s.open(req)
	if s.once && s.again == nil {
		return body, nil
	}
	return body, func() (io.ReadCloser, error) { return s.reopen(req) }
}

// open makes a copy for req the newest one. It requires that s.mu is held.
func (s *stream) open(req *http.Request) *copied {
	c := &copied{stream: s, req: req, ctx: req.Context(), trailer: req.Trailer, done: make(chan struct{})}
	s.current, s.taken = c, false
	return c
}

// complete is intact with s.mu locked.
func (s *stream) complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.intact()
}

// quiet is Body.Quiet. A body with GetBody does not depend on the response.
func (s *stream) quiet(ctx context.Context, timeout time.Duration) bool {
	if s.again != nil {
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

// intact reports whether another attempt can send the body: there is GetBody,
// or all that was read is kept and the reader has not failed. It requires that
// s.mu is held.
func (s *stream) intact() bool {
	return !s.lost && !s.over && (s.again != nil || s.end == nil || s.end == io.EOF)
}

// keeps reports whether what is read is kept for another attempt. It requires
// that s.mu is held.
func (s *stream) keeps() bool { return s.again == nil && !s.lost }

// failure returns the error of the caller's reader for Body.Err.
func (s *stream) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end == io.EOF || s.cut || s.again != nil && !s.lost {
		return nil
	}
	return s.end
}

// freeze is Body.Freeze: it freezes the newest copy.
func (s *stream) freeze(ctx context.Context, timeout time.Duration) (waited time.Duration, ok bool) {
	waited = waitFor(ctx, s.beginFreeze(), timeout)
	old, ok := s.endFreeze()
	return waited, ok && s.rewind(old) == nil
}

// beginFreeze freezes the newest copy until endFreeze. It returns the Read in
// progress, or nil.
func (s *stream) beginFreeze() *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.(*copied).frozen = s.intact()
	return s.reading
}

// endFreeze reports whether the newest copy stays frozen. If so, the body
// belongs to the next attempt, and endFreeze begins to rewind it.
func (s *stream) endFreeze() (old io.Closer, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.current.(*copied)
	c.frozen = s.reading == nil && s.intact()
	s.taken = c.frozen
	if !c.frozen {
		return nil, false
	}
	return s.beginRewind(), true
}

// release is Body.Release.
func (s *stream) release(failed bool) { _ = closeNow(s.finish(failed)) }

// finish ends the call. It returns what has to be closed, or nil.
func (s *stream) finish(failed bool) (toClose io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
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

// forget discards what was kept if neither c, the newest copy, nor a later copy
// can need it. It requires that s.mu is held.
func (s *stream) forget(c *copied) {
	read := c.pos == len(s.kept)
	last := s.over || !s.keeps()
	exceeded := c.exceeded && int64(len(s.kept)) > s.limit
	if s.reading == nil && (last && (read || c.closed) || exceeded && read && !c.frozen) {
		s.lost, c.pos = s.again == nil, 0
		if s.kept = s.kept[:0]; cap(s.kept) > maxRead {
			s.kept = nil
		}
	}
}
