package replay

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// ErrBusy is returned by GetBody of an attempt's request if the caller's reader
// is still being read, so that the body cannot be resent yet.
var ErrBusy = errors.New("awsretry: the request body is still being read")

// ErrNotKept is returned by GetBody of an attempt's request if more of the body was
// sent than may be kept.
var ErrNotKept = errors.New("awsretry: the request body cannot be sent again: more than MaxBodyBuffer of it was sent")

// errNoBody replaces the result of a GetBody that returned neither a body nor
// an error.
var errNoBody = errors.New("awsretry: GetBody returned no body")

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

// suspend freezes the newest copy, which must be req's. It returns that copy
// and the Read in progress, or nil.
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

// endSuspension begins to rewind body, the copy that suspend returned. It returns
// an error if that is impossible. If the Read is still in progress, body can be
// read as before.
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

// reclaim makes c the newest copy again if nothing was read of it, and if the
// newest copy is from GetBody of the same request and is closed or at its end. So a
// signer can read the result of GetBody for a hash, and the body itself is still
// sent.
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

// beginReclaim begins to rewind the body. It returns the newest copy, or nil if
// c cannot replace it.
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

// beginRewind begins to rewind a body with GetBody. The caller must unlock mu
// and pass the result to rewind. beginRewind requires that mu is held, that the
// newest copy is frozen and that no Read is in progress.
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

// endRewind makes body the caller's reader, or records err if it is not nil.
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
