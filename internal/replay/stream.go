package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"
)

// ErrBusy is returned by GetBody of an attempt's request during a Read of the
// caller's reader: the body cannot be sent again yet.
var ErrBusy = errors.New("awsretry: the request body is still being read")

// ErrNotKept is returned by GetBody of an attempt's request if more of the body
// was sent than may be kept.
var ErrNotKept = errors.New("awsretry: the request body cannot be sent again: more than MaxBodyBuffer of it was sent")

// errFrozen is returned by the Read of a copy if a later attempt has the body.
var errFrozen = errors.New("awsretry: the attempt is over; a later one sends the rest of the body")

// readWait is how long GetBody waits for a Read of the caller's reader.
const readWait = time.Second

// maxRead is the size of the largest Read of the caller's reader.
const maxRead = 64 << 10

// A stream is a body that several attempts read through copies. It keeps what
// they read of a body that cannot be read twice. If the request has GetBody, it
// keeps nothing and opens the body again: when the copy before reads no more,
// because GetBody may rewind the one reader that there is.
//
// A goroutine reads the caller's reader. It exists only during a Read. So Close
// of a copy ends the copy's Read at once, as net/http expects, even if the
// caller's reader hangs, and the result of its Read is kept for the next
// attempt. Nothing is read before a copy is read.
type stream struct {
	source
	again     func() (io.ReadCloser, error) // GetBody of the caller's request; nil: what is read is kept
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

// errNoBody is the error of a GetBody that returned neither a body nor an
// error.
var errNoBody = errors.New("awsretry: GetBody returned no body")

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

// reopen replaces the newest copy by a new one, if both are of req.
func (s *stream) reopen(req *http.Request) (io.ReadCloser, error) {
	body, current, err := s.suspend(req)
	if err != nil {
		return nil, err
	}
	waitFor(req.Context(), current, readWait)
	old, err := s.endSuspension(body)
	if err != nil {
		return nil, err
	}
	if err := s.rewind(old); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken || s.current != any(body) {
		return nil, errFrozen
	}
	return s.open(req), nil
}

// suspend freezes the newest copy, which must be of req. It returns that copy
// and the Read in progress, nil if there is none.
func (s *stream) suspend(req *http.Request) (body *copied, current *reading, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ = s.current.(*copied)
	switch {
	case s.over || body == nil || body.frozen || body.req != req:
		return nil, nil, errFrozen
	case s.lost && (s.end == nil || s.end == io.EOF):
		return nil, nil, ErrNotKept
	case !s.intact():
		return nil, nil, s.end
	}
	body.frozen = true
	return body, s.reading, nil
}

// endSuspension returns an error if body, which is suspended, cannot be opened
// again. If it is still being read, it is read on. Otherwise endSuspension
// begins to rewind the body.
func (s *stream) endSuspension(body *copied) (old io.Closer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.taken || s.current != any(body):
		return nil, errFrozen
	case s.reading != nil || !s.intact():
		body.frozen = false
		return nil, ErrBusy
	}
	return s.beginRewind(), nil
}

// reclaim makes c the newest copy again, if nothing was read of it and one that
// GetBody of the same request returned has been read and is closed or at its
// end. So what signs a request can read its body for a hash before it is sent.
func (s *stream) reclaim(c *copied) error {
	body, old := s.beginReclaim(c)
	if body == nil {
		return nil
	}
	if err := s.rewind(old); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.taken && !s.over && s.current == any(body) {
		s.current, c.frozen = c, false
	}
	return nil
}

// beginReclaim returns the newest copy, nil if c cannot replace it. It begins to
// rewind the body.
func (s *stream) beginReclaim(c *copied) (body *copied, old io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ = s.current.(*copied)
	switch {
	case c.begun || c.closed || body == nil || body == c || body.req != c.req,
		!body.closed && (s.end == nil || body.pos < len(s.kept)),
		s.taken || s.reading != nil || !s.intact():
		return nil, nil
	}
	body.frozen = true
	return body, s.beginRewind()
}

// beginRewind begins to rewind a body with GetBody. It returns what rewind is
// to close, after mu is unlocked. It requires that mu is held, that the newest
// copy is frozen and that no Read is in progress.
func (s *stream) beginRewind() (old io.Closer) {
	if s.again == nil {
		return nil
	}
	s.reading = newReading() // so that nothing else rewinds it at the same time
	return s.claimClose()
}

// rewind closes the reader of a body with GetBody and opens a new one, as
// net/http does.
func (s *stream) rewind(old io.Closer) error {
	if s.again == nil {
		return nil
	}
	body, err := io.ReadCloser(nil), errNoBody
	defer func() { s.endRewind(body, err) }()
	_ = closeNow(old)
	opened, failure := s.again()
	if failure != nil {
		err = failure
	} else if opened != nil {
		body, err = opened, nil
	}
	return err
}

// endRewind makes body the reader, unless err is set.
func (s *stream) endRewind(body io.ReadCloser, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.lost, s.end = true, err
	} else {
		s.ReadCloser, s.closed, s.cut = body, false, false
		s.kept, s.end, s.panic = s.kept[:0], nil, nil
	}
	s.endReading()
}

// endReading requires that mu is held.
func (s *stream) endReading() {
	close(s.reading.ended)
	s.reading = nil
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

// complete is intact for those who do not hold s.mu.
func (s *stream) complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.intact()
}

// quiet is Quiet. The caller does not write a body with GetBody by hand.
func (s *stream) quiet(ctx context.Context, timeout time.Duration) bool {
	if s.again != nil {
		return true
	}
	waitFor(ctx, s.inProgress(), timeout)
	return s.inProgress() == nil
}

// inProgress returns the Read in progress, nil if there is none.
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

func (s *stream) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end == io.EOF || s.cut || s.again != nil && !s.lost {
		return nil
	}
	return s.end
}

// freeze freezes the newest copy, if the next attempt can send the body.
func (s *stream) freeze(ctx context.Context, timeout time.Duration) (waited time.Duration, ok bool) {
	waited = waitFor(ctx, s.beginFreeze(), timeout)
	old, ok := s.endFreeze()
	return waited, ok && s.rewind(old) == nil
}

// beginFreeze freezes the newest copy for the time being. It returns the Read
// in progress, nil if there is none.
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

func (s *stream) release(failed bool) { _ = closeNow(s.finish(failed)) }

// finish ends the call, and returns what is to be closed.
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

// A reading is a Read of the caller's reader, or a call of GetBody.
type reading struct {
	ended chan struct{} // closed when it has ended
}

func newReading() *reading { return &reading{make(chan struct{})} }

// forget discards what was kept if c, the newest copy, needs it no longer and
// no other copy can. It requires that s.mu is held.
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

// read begins a Read of up to n bytes of the caller's reader for c. It requires
// that s.mu is held and that no Read is in progress.
func (s *stream) read(c *copied, n int) {
	n = min(n, maxRead)
	switch free := s.limit - int64(len(s.kept)); {
	case !s.keeps():
	case free <= 0:
		c.exceeded = true
	default: // only a Read that begins with a full buffer may exceed the limit
		n = int(min(int64(n), free))
	}
	s.grow(n)
	buf := s.kept[len(s.kept) : len(s.kept)+n]
	s.reading = newReading()
	s.enter()
	go s.readInto(buf, s.ReadCloser)
}

func (s *stream) readInto(buf []byte, src io.Reader) {
	n, panicked, err := readOnce(src, buf)
	if toClose := s.record(n, err, panicked); toClose != nil {
		defer func() { _ = recover() }() // a panic here would end the process
		defer s.endRead()
		toClose.Close()
		return
	}
	s.endRead()
}

// record records the result of a Read, and returns what is to be closed.
func (s *stream) record(n int, err error, panicked any) (toClose io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = s.kept[:len(s.kept)+n]
	s.end, s.panic, s.cut = err, panicked, s.closed && err != io.EOF
	toClose = s.leave()
	if toClose == nil && s.over && err != nil {
		toClose = s.claimClose()
	}
	return toClose
}

func (s *stream) endRead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endReading()
}

// readOnce returns a panic of the caller's reader as a value, so that the Read
// of a copy can panic in place of the goroutine.
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

// grow makes room in kept for n more bytes. Its capacity exceeds the limit only
// if n does. It requires that s.mu is held and that no Read is in progress.
func (s *stream) grow(n int) {
	need := len(s.kept) + n
	if need <= cap(s.kept) {
		return
	}
	size := max(need, min(2*cap(s.kept), int(min(s.limit, math.MaxInt))))
	s.kept = append(make([]byte, 0, size), s.kept...)
}
