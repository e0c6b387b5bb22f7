package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"time"
)

// ErrBusy is what GetBody of an attempt's request returns while a Read of the
// caller's body is under way, so that the body cannot be sent again yet.
var ErrBusy = errors.New("awsretry: the request body is still being read")

// ErrNotKept is what GetBody of an attempt's request returns where more of the
// caller's body was sent than is kept.
var ErrNotKept = errors.New("awsretry: the request body cannot be sent again: more than MaxBodyBuffer of it was sent")

// errFrozen is what a copy reads when a later attempt has the body.
var errFrozen = errors.New("awsretry: the attempt is over; a later one sends the rest of the body")

// readWait is how long GetBody waits for a Read that is under way.
const readWait = time.Second

// maxRead is the most that is asked of the caller's reader at a time.
const maxRead = 64 << 10

// A stream keeps what attempts read of a body that cannot be read twice.
//
// The caller's reader is read by a goroutine of its own, which exists only while
// a Read is under way: so closing a copy ends the copy's Read at once, as
// net/http expects, whatever the caller's reader does, and what that Read brings
// is not lost for the next attempt. Nothing is read unless a copy asks for it.
type stream struct {
	source
	limit     int64
	once      bool        // one attempt only: nothing is kept
	announced http.Header // the trailer as the caller announced it
	trailer   http.Header // the caller's, which its reader fills in

	// The fields below are guarded by mu.
	kept    []byte   // what was read so far
	end     error    // what the caller's reader ended with, behind kept: io.EOF or its failure
	panic   any      // what the caller's reader panicked with, for the Read that waits for it
	lost    bool     // kept was let go of: no attempt can begin again
	taken   bool     // the body is the next attempt's, which has no copy yet
	reading *reading // the Read that is under way; nil where there is none
	cut     bool     // end may come of the Close that ended the Read
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

// attach opens the copy for req, a new attempt's, and takes the body from the
// copies before. It also returns a GetBody, for a Base that sends req again by
// itself, which it does with one goroutine at a time; nil where there is one
// attempt only.
func (s *stream) attach(req *http.Request) (io.ReadCloser, func() (io.ReadCloser, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := s.open(req)
	if s.once {
		return body, nil
	}
	return body, func() (io.ReadCloser, error) {
		again, err := s.reopen(req, body)
		if err != nil {
			return nil, err
		}
		body = again
		return body, nil
	}
}

// open requires that s.mu is held.
func (s *stream) open(req *http.Request) *copied {
	c := &copied{stream: s, ctx: req.Context(), trailer: req.Trailer, done: make(chan struct{})}
	s.current, s.taken = c, false
	return c
}

// reopen replaces body, the copy that req was given last, by a new one.
func (s *stream) reopen(req *http.Request, body *copied) (*copied, error) {
	underWay, err := s.suspend(body)
	if err != nil {
		return nil, err
	}
	waitFor(req.Context(), underWay, readWait)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.taken || s.current != any(body):
		return nil, errFrozen
	case s.reading != nil || !s.intact():
		body.frozen = false
		return nil, ErrBusy
	}
	return s.open(req), nil
}

// suspend keeps body from reading, and returns the Read that is under way, nil
// where there is none.
func (s *stream) suspend(body *copied) (underWay *reading, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over || body.frozen || s.current != any(body):
		return nil, errFrozen
	case s.lost:
		return nil, ErrNotKept
	case !s.intact():
		return nil, s.end
	}
	body.frozen = true
	return s.reading, nil
}

// waitFor waits for the end of r, which may be nil.
func waitFor(ctx context.Context, r *reading, timeout time.Duration) (waited time.Duration) {
	if r == nil {
		return 0
	}
	start := time.Now()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-r.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	return time.Since(start)
}

// complete reports whether all that was read is kept and can be followed by the
// rest.
func (s *stream) complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.intact()
}

// intact requires that s.mu is held.
func (s *stream) intact() bool {
	return !s.lost && !s.over && (s.end == nil || s.end == io.EOF)
}

func (s *stream) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end == io.EOF || s.cut {
		return nil
	}
	return s.end
}

// freeze ends the reading of the newest copy, if the body is complete then.
func (s *stream) freeze(ctx context.Context, timeout time.Duration) (waited time.Duration, ok bool) {
	waited = waitFor(ctx, s.hold(), timeout)
	return waited, s.take()
}

// hold keeps the newest copy from reading. It returns the Read that is under
// way, nil where there is none.
func (s *stream) hold() *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.(*copied).frozen = s.intact()
	return s.reading
}

// take ends what hold began: it reports whether the newest copy stays frozen.
func (s *stream) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.current.(*copied)
	c.frozen = s.reading == nil && s.intact()
	s.taken = c.frozen
	return c.frozen
}

func (s *stream) release(failed bool) {
	if s.finish(failed) {
		s.closeSource()
	}
}

// finish ends the call, and reports whether the caller's reader is to be closed.
func (s *stream) finish(failed bool) (toClose bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	c, _ := s.current.(*copied)
	if c != nil {
		c.frozen = c.frozen || failed
		s.letGo(c)
	}
	return (failed || c == nil || c.closed || s.end != nil) && s.mayClose()
}

// closeSource closes the caller's reader.
func (s *stream) closeSource() error { return closeBeside(s.ReadCloser, s.underWay()) }

// underWay returns the Read that is under way, nil where there is none.
func (s *stream) underWay() *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reading
}

// A reading is a Read of the caller's reader.
type reading struct {
	begun chan struct{} // closed when it begins
	ended chan struct{} // closed when it has ended
}

func newReading() *reading { return &reading{make(chan struct{}), make(chan struct{})} }

// closeWait is how long a Close is waited for that may wait for a Read.
const closeWait = 100 * time.Millisecond

// closeBeside closes c. Beside a Read it does not wait long for Close, which may
// wait for the Read: that of a request of a net/http server does.
func closeBeside(c io.Closer, beside *reading) error {
	if beside == nil {
		return c.Close()
	}
	<-beside.begun
	runtime.Gosched() // so that it is a Read that is closed, and not one after the Close
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }() // it would end the process
		err = c.Close()
	}()
	if ends(done, closeWait) {
		return err
	}
	return nil
}

// ends reports whether done is closed in time.
func ends(done <-chan struct{}, timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// letGo forgets what was kept, if c, the newest copy, has read it and no other
// can. It requires that s.mu is held.
func (s *stream) letGo(c *copied) {
	read := c.pos == len(s.kept)
	last := s.over || s.lost
	exceeded := c.exceeded && int64(len(s.kept)) > s.limit
	if s.reading == nil && (last && (read || c.closed) || exceeded && read && !c.frozen) {
		s.lost, c.pos = true, 0
		if s.kept = s.kept[:0]; cap(s.kept) > maxRead {
			s.kept = nil
		}
	}
}

// read begins a Read of up to n bytes of the caller's reader for c. It requires
// that s.mu is held and no Read is under way.
func (s *stream) read(c *copied, n int) {
	n = min(n, maxRead)
	// No more than fits is asked for, so that only a Read that begins with the
	// buffer full can lose the body.
	if free := s.limit - int64(len(s.kept)); s.lost {
		// Nothing is kept for another attempt.
	} else if free <= 0 {
		c.exceeded = true
	} else if int64(n) > free {
		n = int(free)
	}
	s.grow(n)
	buf := s.kept[len(s.kept) : len(s.kept)+n]
	r := newReading()
	s.reading = r
	go func() {
		close(r.begun)
		n, panicked, err := readOnce(s.ReadCloser, buf)
		if s.endRead(n, err, panicked) {
			s.ReadCloser.Close()
		}
		close(r.ended)
	}()
}

// endRead keeps what a Read brought, and reports whether the caller's reader is
// to be closed.
func (s *stream) endRead(n int, err error, panicked any) (toClose bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = s.kept[:len(s.kept)+n]
	s.end, s.panic, s.cut = err, panicked, s.closed && err != io.EOF
	s.reading = nil
	return s.over && err != nil && s.mayClose()
}

// readOnce turns a panic of the caller's reader into a value: it is the Read of
// a copy that has to panic, not the goroutine.
func readOnce(r io.Reader, p []byte) (n int, panicked any, err error) {
	defer func() {
		if panicked = recover(); panicked != nil {
			n, err = 0, fmt.Errorf("awsretry: the request body's Read panicked: %v", panicked)
		}
	}()
	n, err = r.Read(p)
	if n < 0 || n > len(p) {
		return 0, nil, fmt.Errorf("awsretry: the request body's Read returned %d bytes for a buffer of %d", n, len(p))
	}
	return n, nil, err
}

// grow makes room for n bytes, and for no more than the limit unless n asks for
// it. It requires that s.mu is held and no Read is under way.
func (s *stream) grow(n int) {
	need := len(s.kept) + n
	if need <= cap(s.kept) {
		return
	}
	size := max(need, min(2*cap(s.kept), int(min(s.limit, math.MaxInt))))
	s.kept = append(make([]byte, 0, size), s.kept...)
}
