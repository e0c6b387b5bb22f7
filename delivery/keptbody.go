package delivery

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"example.com/awsretry/internal/replay"
)

// maxKept is how much is held of a request body that cannot be had again, as much as awsretry holds for its retries.
const maxKept = 1 << 20

// A keptBody is a request's body that can be read once more when the delivery has failed: through GetBody, in place where it
// is an io.ReaderAt with a size, or from what was kept of it and the rest of its source.
type keptBody struct {
	req    *http.Request     // the caller's
	file   *io.SectionReader // of a body that is read in place
	stream *keptStream       // of one that is not

	// Of file and stream: req.Body is closed when nobody has a share in it. The keeper has one, and what is lent another.
	shares atomic.Int32
	closer *closer // of req.Body
}

// A closer closes a body once.
type closer struct {
	body   io.Closer
	called atomic.Bool
}

func (c *closer) Close() error {
	if c.called.Swap(true) {
		return nil
	}
	return c.body.Close()
}

// abandon closes a body whose Read hangs. The Close may wait for that Read, as
// that of a server's request does, so it is not waited for long.
func (c *closer) abandon() {
	if c.called.Swap(true) {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.body.Close()
	}()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// keep finds out how the body can be read again.
func (k *keptBody) keep() {
	req := k.req
	if !hasBody(req) || req.GetBody != nil {
		return
	}
	k.shares.Store(1)
	k.closer = &closer{body: req.Body}
	if k.file = replay.Section(req.Body, req.ContentLength); k.file == nil {
		k.stream = &keptStream{src: req.Body, limit: maxKept, idle: make(chan struct{})}
		if req.ContentLength > maxKept {
			k.stream.limit = 0 // it could not be kept whole: it can be had again only where nothing was read
		}
	}
}

// release ends the keeping. It is called once.
func (k *keptBody) release() {
	if k.stream != nil {
		k.stream.drop()
	}
	if k.closer != nil {
		k.giveBack()
	}
}

func (k *keptBody) giveBack() {
	if k.shares.Add(-1) == 0 {
		k.closer.Close()
	}
}

// lend returns the request to send.
func (k *keptBody) lend() *http.Request {
	if k.file == nil && k.stream == nil {
		return k.req
	}
	lent := k.req.WithContext(k.req.Context())
	k.shares.Add(1)
	closed := sync.OnceFunc(k.giveBack)
	if k.file != nil {
		lent.Body = &lentFile{k.section(), closed}
	} else {
		lent.Body = &lentStream{k.stream, closed}
	}
	return lent
}

func (k *keptBody) section() *io.SectionReader { return io.NewSectionReader(k.file, 0, k.file.Size()) }

// again gives the dead letter's request the body, which can be read until done
// is called. baseIsDone says that Base has no more use for it; where it has, a
// stream is left to it. A source of which nothing comes for as long as idle is
// closed.
func (k *keptBody) again(req *http.Request, idle time.Duration, baseIsDone bool) (done func()) {
	done = func() {}
	switch {
	case !hasBody(k.req):
	case k.req.GetBody != nil:
		body, err := k.req.GetBody()
		if err != nil || body == nil {
			req.Body, req.GetBody = lostBody{err}, nil
			return done
		}
		closer := &closer{body: body}
		req.Body = struct {
			io.Reader
			io.Closer
		}{newPatientReader(body, idle, closer.abandon), closer}
		return func() { closer.Close() }
	case k.file != nil:
		setBody(req, func() io.Reader { return k.section() })
	case baseIsDone && k.stream.take(idle) || k.stream.isIdle():
		k.stream.again(req, func(src io.Reader) io.Reader { return newPatientReader(src, idle, k.closer.abandon) })
	default:
		req.Body = lostBody{}
		if baseIsDone {
			k.closer.abandon() // it hangs
		}
	}
	return done
}

func setBody(req *http.Request, body func() io.Reader) {
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(body()), nil }
	req.Body, _ = req.GetBody()
}

// A lentFile is the body of a request that is sent, where it is read in place. awsretry takes sections of it for its attempts.
type lentFile struct {
	*io.SectionReader
	close func()
}

func (f *lentFile) Close() error {
	f.close()
	return nil
}

// A lentStream is the body of a request that is sent, where it is a stream.
type lentStream struct {
	*keptStream
	close func()
}

func (s *lentStream) Close() error {
	s.end()
	s.close()
	return nil
}

// A keptStream keeps what is read of a body. One goroutine at a time reads it.
type keptStream struct {
	src   io.Reader
	limit int           // of kept, in bytes
	idle  chan struct{} // closed once the reading was ended and no Read is under way

	mu      sync.Mutex // guards the fields below
	kept    []byte
	lost    bool  // more was read than may be kept
	failure error // what src ended with, io.EOF included
	reading bool
	ended   bool
}

func (s *keptStream) Read(p []byte) (n int, err error) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	s.reading = true
	s.mu.Unlock()
	failure := errPanicked
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reading = false
		if s.ended {
			close(s.idle)
		}
		s.keep(p[:n])
		s.failure = failure
	}()
	n, err = s.src.Read(p)
	failure = err
	return n, err
}

// keep requires that s.mu is held.
func (s *keptStream) keep(p []byte) {
	if s.lost || len(s.kept)+len(p) > s.limit {
		s.lost, s.kept = true, nil
		return
	}
	s.kept = append(s.kept, p...)
}

// drop ends the keeping. Who reads the stream may go on.
func (s *keptStream) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept, s.lost = nil, true
}

// end makes all further Reads fail.
func (s *keptStream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && !s.reading {
		close(s.idle)
	}
	s.ended = true
}

// take ends the reading and reports whether it has ended, after the time given at the latest.
func (s *keptStream) take(timeout time.Duration) bool {
	s.end()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-s.idle:
		return true
	case <-timer.C:
		return s.isIdle()
	}
}

func (s *keptStream) isIdle() bool {
	select {
	case <-s.idle:
		return true
	default:
		return false
	}
}

// again gives req the whole stream: what was kept, and what rest makes of the
// source that was not read to its end. The stream must be idle.
func (s *keptStream) again(req *http.Request, rest func(io.Reader) io.Reader) {
	s.mu.Lock()
	kept, lost, failure := s.kept, s.lost, s.failure
	s.mu.Unlock()
	switch {
	case failure != nil && failure != io.EOF:
		req.Body = lostBody{failure}
	case lost:
		req.Body = lostBody{}
	case failure == io.EOF:
		setBody(req, func() io.Reader { return bytes.NewReader(kept) })
	default:
		req.Body = io.NopCloser(io.MultiReader(bytes.NewReader(kept), rest(s.src)))
	}
}
