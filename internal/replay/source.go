package replay

import (
	"io"
	"net"
	"os"
	"sync"
)

// A source is the caller's reader, or one from its GetBody. It is closed once,
// and not during a Read, because a reader may still use what its Close releases.
// The exception is a reader whose Close is known to end a Read.
type source struct {
	io.ReadCloser

	mu      sync.Mutex // guards the fields below and those of the copies
	current any        // the newest copy
	over    bool       // the call has ended
	reads   int        // in progress
	closed  bool       // or the last of the Reads in progress will close it
	late    bool       // the last of the Reads in progress closes it
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
		return nil
	}
	return s.ReadCloser
}

// enter begins a Read. It requires that mu is held.
func (s *source) enter() { s.reads++ }

// leave ends a Read. The caller must close the result, unless it is nil, after
// unlocking mu. leave requires that mu is held.
func (s *source) leave() io.Closer {
	s.reads--
	if s.reads > 0 || !s.late {
		return nil
	}
	s.late = false
	return s.ReadCloser
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
