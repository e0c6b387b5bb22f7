package replay

import (
	"context"
	"io"
	"maps"
	"net/http"
)

// A copied is the copy of a stream for one attempt.
type copied struct {
	stream *stream
	req    *http.Request // of the attempt

	// ctx is the context of the attempt's request. During the call, its end also
	// ends a Read, which net/http would wait for.
	ctx     context.Context
	trailer http.Header // of the attempt's request, set at the end; nil if it has none

	// The fields below are guarded by stream.mu.
	done     chan struct{} // closed by Close
	pos      int           // in stream.kept
	begun    bool          // there was a Read of at least one byte
	exceeded bool          // there was a Read of more than may be kept
	frozen   bool          // a later attempt owns the body
	closed   bool
}

func (c *copied) Read(p []byte) (int, error) {
	if err := c.stream.reclaim(c); err != nil {
		return 0, err
	}
	c.reuse()
	for {
		next := c.next(p)
		switch {
		case next.panic != nil:
			panic(next.panic)
		case next.reading == nil:
			return next.n, next.err
		}
		select {
		case <-next.reading:
			if c.empty(next.n) {
				return 0, nil // as the caller's reader returned
			}
		case <-next.done:
		case <-next.canceled: // the next step depends on whether the call is over
		}
	}
}

// reuse reopens a copy that was closed before its first Read, as net/http's
// HTTP/2 does before it sends the request on another connection.
func (c *copied) reuse() {
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	if c.closed && !c.begun && !c.stream.closed {
		c.closed, c.done = false, make(chan struct{})
	}
}

// A step is what a Read of a copy does next. It panics if panic is set, and
// waits for the Read of the caller's reader if reading is set. Otherwise it
// returns n and err.
type step struct {
	n     int // if reading is set, how much was kept before
	err   error
	panic any

	reading, done, canceled <-chan struct{}
}

func (c *copied) next(p []byte) step {
	s := c.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	c.begun = c.begun || len(p) > 0
	switch {
	case c.closed:
		return step{err: http.ErrBodyReadAfterClose}
	case c.frozen || s.current != any(c):
		return step{err: errFrozen}
	case c.pos < len(s.kept):
		n := copy(p, s.kept[c.pos:])
		c.pos += n
		s.forget(c)
		return step{n: n}
	case len(s.passing.bytes) > 0:
		return step{n: s.passing.take(p)}
	case s.end != nil:
		if s.end == io.EOF && c.trailer != nil {
			maps.Copy(c.trailer, s.trailer)
		}
		panicked := s.panic
		s.panic = nil
		return step{err: s.end, panic: panicked}
	case len(p) == 0:
		return step{}
	case !s.over && c.ctx.Err() != nil:
		return step{err: context.Cause(c.ctx)}
	}
	if s.reading == nil {
		s.read(c, len(p))
	}
	// After the call, Base must end the sending of a canceled request.
	var canceled <-chan struct{}
	if !s.over {
		canceled = c.ctx.Done()
	}
	return step{n: len(s.kept), reading: s.reading.ended, done: c.done, canceled: canceled}
}

// empty reports whether the Read of the caller's reader returned no bytes and
// no error. kept is how many bytes were kept before it.
func (c *copied) empty(kept int) bool {
	s := c.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kept) == kept && len(s.passing.bytes) == 0 && s.end == nil && !c.closed && !c.frozen && s.current == any(c)
}

// Close ends a Read of the copy in progress. It also closes the caller's reader
// if no other attempt can follow, because nothing is kept or the call is over.
// If the caller's reader is being read, it is closed after that Read, unless that
// hangs.
func (c *copied) Close() error {
	return closeNow(c.end())
}

// end marks c closed. It returns what must be closed, or nil.
func (c *copied) end() (toClose io.Closer) {
	s := c.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.shut() {
		return nil
	}
	current := s.current == any(c)
	if current && (s.over || s.lost && c.begun) {
		toClose = s.claimClose()
	}
	if current {
		s.forget(c)
	}
	return toClose
}

// shut marks c closed, which ends its Read. It reports whether c was open. It
// requires that stream.mu is held.
func (c *copied) shut() bool {
	if c.closed {
		return false
	}
	c.closed = true
	close(c.done)
	return true
}
