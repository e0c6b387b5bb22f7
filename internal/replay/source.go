package replay

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// hangTime is how long a Read may still take after the call before it counts as
// hanging.
const hangTime = time.Second

// A source is the caller's reader, or one from its GetBody. It is closed once, and
// not during a Read, because a Read may still use what Close releases. The
// exceptions are a reader whose Close is known to end a Read, and a Read that hangs
// after the call: http.Request.Body documents that Close ends a Read, and only
// Close informs the writer of a pipe that nobody reads any longer.
type source struct {
	io.ReadCloser

	mu      sync.Mutex // guards the fields below and those of the copies
	current any        // the newest copy
	over    bool       // the call has ended
	reads   int        // in progress
	closed  bool       // it is closed, or the last of the Reads in progress will close it
	late    bool       // the last of the Reads in progress closes it

	hanging *time.Timer // runs while late, after the call; closes the source
}

// claimClose marks the source closed. The caller must close the result, unless
// it is nil, after unlocking mu, because Close is foreign code. The result is nil
// if the source is already closed or if a Read in progress will close it.
// claimClose requires that mu is held.
func (s *source) claimClose() io.Closer {
	if s.closed {
		return nil
	}
	s.closed = true
	if s.reads > 0 && !closeEndsRead(s.ReadCloser) {
		s.late = true
		s.limitRead()
		return nil
	}
	return s.ReadCloser
}

// endCall marks the call ended. It requires that mu is held.
func (s *source) endCall() {
	s.over = true
	s.limitRead()
}

// limitRead limits how long the last Read may take once the call has ended. It
// requires that mu is held.
func (s *source) limitRead() {
	if s.over && s.late && s.hanging == nil {
		s.hanging = time.AfterFunc(hangTime, s.closeDuringRead)
	}
}

// closeDuringRead closes a source whose Read hangs.
func (s *source) closeDuringRead() {
	s.mu.Lock()
	toClose := s.takeLate()
	s.mu.Unlock()
	defer func() { _ = recover() }() // a panic here would end the process
	_ = closeNow(toClose)
}

// takeLate returns what the last of the Reads in progress would have closed, or
// nil. The caller must close it after unlocking mu. takeLate requires that mu is
// held.
func (s *source) takeLate() io.Closer {
	if !s.late {
		return nil
	}
	s.late = false
	if s.hanging != nil {
		s.hanging.Stop()
	}
	return s.ReadCloser
}

// enter begins a Read. It requires that mu is held.
func (s *source) enter() { s.reads++ }

// leave ends a Read. The caller must close the result, unless it is nil, after
// unlocking mu. leave requires that mu is held.
func (s *source) leave() io.Closer {
	s.reads--
	if s.reads > 0 {
		return nil
	}
	return s.takeLate()
}

// closeEndsRead reports whether Close may be called during a Read of r, and
// ends it.
func closeEndsRead(r io.Reader) bool {
	switch r.(type) {
	case *os.File, *io.PipeReader, net.Conn:
		return true
	}
	return false
}

// closeNow closes c, which may be nil.
func closeNow(c io.Closer) error {
	if c == nil {
		return nil
	}
	return c.Close()
}
