package replay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// ErrBusy is returned by GetBody of an attempt's request if the caller's reader
// is still being read, so that the body cannot be resent yet.
var ErrBusy = errors.New("the request body is still being read")

// ErrNotKept is returned by GetBody of an attempt's request if more of the body was
// sent than may be kept.
var ErrNotKept = errors.New("the request body cannot be sent again: more than MaxBodyBuffer of it was sent")

// ErrDiffers is the error of a GetBody that does not return the bytes that an
// earlier attempt has read, or as many.
var ErrDiffers = errors.New("the request body cannot be sent again: GetBody does not return the bytes that were sent")

// errNoBody replaces the result of a GetBody that returned neither a body nor
// an error.
var errNoBody = errors.New("the request body cannot be sent again: GetBody returned no body")

// readWait is how long GetBody waits for a Read of the caller's reader.
const readWait = time.Second

// reopen is the GetBody of an attempt's request. It replaces the newest copy, which
// must be req's, with a new one that starts from the beginning.
func (s *stream) reopen(req *http.Request) (io.ReadCloser, error) {
	body, current, err := s.suspend(req)
	if err != nil {
		return nil, err
	}
	waitFor(req.Context(), current, readWait)
	old, rewinds, err := s.endSuspension(body)
	if err == nil && rewinds {
		err = s.rewind(req.Context(), old, readWait)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken || s.current != any(body) {
		return nil, errFrozen
	}
	return s.open(req), nil
}

// suspend freezes the newest copy, which must be req's. It returns that copy
// and the Read in progress, or nil.
func (s *stream) suspend(req *http.Request) (body *copied, current *reading, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ = s.current.(*copied)
	switch {
	case s.over || body == nil || body.frozen || body.req != req:
		return nil, nil, errFrozen
	case s.lost && !s.failed():
		return nil, nil, ErrNotKept
	case !s.intact():
		return nil, nil, s.end
	}
	body.frozen = true
	return body, s.reading, nil
}

// endSuspension begins to rewind body, the copy that suspend returned. It returns
// an error if that is impossible. If the Read is still in progress, body can be
// read as before.
func (s *stream) endSuspension(body *copied) (old io.Closer, rewinds bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.taken || s.current != any(body):
		return nil, false, errFrozen
	case s.reading != nil || !s.intact():
		body.frozen = false
		return nil, false, ErrBusy
	}
	old, rewinds = s.beginRewind()
	return old, rewinds, nil
}

// reclaim makes c the newest copy again if nothing was read of it, and if the
// newest copy is from GetBody of the same request and is closed or at its end. So a
// signer can read the result of GetBody for a hash, and the body itself is still
// sent.
func (s *stream) reclaim(c *copied) error {
	body, old, rewinds := s.beginReclaim(c)
	if body == nil {
		return nil
	}
	if rewinds {
		if err := s.rewind(c.ctx, old, readWait); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.taken && !s.over && s.current == any(body) {
		s.current, c.frozen = c, false
	}
	return nil
}

// beginReclaim begins to rewind the body. It returns the newest copy, or nil if
// c cannot replace it.
func (s *stream) beginReclaim(c *copied) (body *copied, old io.Closer, rewinds bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ = s.current.(*copied)
	switch {
	case c.begun || c.closed || body == nil || body == c || body.req != c.req,
		!body.closed && (s.end == nil || body.pos < len(s.kept) || len(s.passing.bytes) > 0),
		s.taken || s.reading != nil || !s.intact():
		return nil, nil, false
	}
	body.frozen = true
	old, rewinds = s.beginRewind()
	return body, old, rewinds
}

// beginRewind begins to rewind a body that takes a new reader from GetBody. If it
// does, the caller must unlock mu and pass old to rewind. beginRewind requires that
// mu is held, that the newest copy is frozen and that no Read is in progress.
func (s *stream) beginRewind() (old io.Closer, rewinds bool) {
	if !s.rewinds() {
		return nil, false
	}
	s.reading = newReading() // so that nothing else rewinds it at the same time
	return s.claimClose(), true
}

// errSlow is why a body is not sent again whose GetBody takes too long.
var errSlow = errors.New("the request body cannot be sent again: what GetBody returns is too slow")

// rewind closes the caller's reader and takes a new one from GetBody, as net/http
// does. The new one must begin with what is kept. rewind waits for that until ctx has
// ended, or a timeout has passed in which nothing was read, and for ten of them.
func (s *stream) rewind(ctx context.Context, old io.Closer, timeout time.Duration) error {
	body, err := io.ReadCloser(nil), errNoBody
	checked := false
	defer func() {
		if !checked {
			_ = closeNow(s.endRewind(body, err))
		}
	}()
	_ = closeNow(old)
	opened, failure := s.again()
	switch {
	case failure != nil:
		err = failure
		return err
	case opened == nil:
		return err
	case len(s.kept) == 0:
		body, err = opened, nil
		return nil
	}
	checked = true
	current, toClose := s.beginCheck(opened)
	go s.check(opened)
	_ = closeNow(toClose)
	seen := int64(-1)
	for range 10 {
		if !current.running() || s.compared.Load() == seen || ctx.Err() != nil {
			break
		}
		seen = s.compared.Load()
		waitFor(ctx, current, timeout)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.reading != nil:
		s.fault = errSlow
		return errSlow
	case s.lost:
		return s.end
	}
	return nil
}

// beginCheck makes body the caller's reader, so that it is closed as that one is if
// its Read hangs after the call. It returns the rewind in progress, and what must be
// closed if the call has ended, or nil.
func (s *stream) beginCheck(body io.ReadCloser) (current *reading, toClose io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ReadCloser, s.closed = body, false
	s.enter()
	if s.over {
		toClose = s.claimClose()
	}
	return s.reading, toClose
}

// check ends a rewind. It is a goroutine, because a Read of body may hang.
func (s *stream) check(body io.Reader) {
	err := s.compare(body)
	defer func() { _ = recover() }() // a panic here would end the process
	_ = closeNow(s.endCheck(err))
}

// endCheck is endRewind after beginCheck.
func (s *stream) endCheck(err error) (toClose io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	toClose = s.leave()
	switch {
	case err != nil:
		s.lost, s.end, s.fault = true, err, err
	case !s.over:
		s.renew()
	}
	if toClose == nil && (err != nil || s.over) {
		toClose = s.claimClose()
	}
	s.endReading()
	return toClose
}

// renew begins with the reader that the rewind took. It requires that s.mu is held.
func (s *stream) renew() {
	s.cut, s.end, s.panic = false, nil, nil
	s.passing.rewind()
}

// compare reads as much of body as is kept. It returns an error if the bytes differ.
func (s *stream) compare(body io.Reader) error {
	const maxEmptyReads = 100 // in a row, as in bufio
	buf := make([]byte, min(len(s.kept), 8<<10))
	empty := 0
	for rest := s.kept; len(rest) > 0; {
		if empty++; empty > maxEmptyReads {
			return io.ErrNoProgress
		}
		n, _, err := readOnce(body, buf[:min(len(rest), len(buf))])
		switch {
		case !bytes.Equal(buf[:n], rest[:n]):
			return ErrDiffers
		case n < len(rest) && err == io.EOF:
			return ErrDiffers
		case n < len(rest) && err != nil:
			return err
		}
		if rest = rest[n:]; n > 0 {
			empty = 0
			s.compared.Add(int64(n))
		}
	}
	return nil
}

// endRewind makes body the caller's reader. If err is not nil, it records err
// instead. It returns what must be closed, or nil.
func (s *stream) endRewind(body io.ReadCloser, err error) (toClose io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.lost, s.end, s.fault = true, err, err
		if body != nil {
			toClose = body
		}
	case s.over:
		toClose = body
	default:
		s.ReadCloser, s.closed = body, false
		s.renew()
	}
	s.endReading()
	return toClose
}
