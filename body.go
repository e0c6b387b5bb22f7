package awsretry

import (
	"io"
	"io/fs"
	"net/http"
	"sync/atomic"
	"time"

	"example.com/awsretry/internal/inplace"
)

// A payload hands out a request's body, once for each attempt. The four ways:
//
//   - no body, or http.NoBody: nothing to do;
//   - GetBody: the first attempt takes the caller's reader, each retry a new one;
//   - an io.ReaderAt with a size: each attempt reads a section of its own, in place;
//   - any other stream: the attempt reads it through a recorder, and a retry reads what was kept, then the rest.
//
// In the last two the caller's reader is closed when the last copy of it is, and the payload is released.
type payload struct {
	req     *http.Request
	unsent  bool          // the caller's own body is not handed out yet, and is ours to close
	next    io.ReadCloser // from GetBody, for the retry that is being decided on
	file    *inPlace
	stream  *recorder
	current *recording // the attempt's view of stream
}

// own takes over the request's body: release closes it unless an attempt gets it.
func (p *payload) own(req *http.Request) {
	p.req = req
	p.unsent = req.Body != nil && req.Body != http.NoBody
}

// split finds the way in which several attempts can have the body. At most maxBuffer bytes of a stream are kept.
func (p *payload) split(maxBuffer int64) {
	if !p.unsent || p.req.GetBody != nil {
		return
	}
	if p.file = readInPlace(p.req); p.file == nil {
		if p.req.ContentLength > maxBuffer {
			maxBuffer = 0 // it could not be kept whole: a retry is possible only where nothing was read
		}
		p.stream = &recorder{limit: maxBuffer}
		p.stream.share(p.req.Body)
	}
}

// copied reports whether an attempt reads the caller's body through a copy.
func (p *payload) copied() bool { return p.file != nil || p.stream != nil }

// open returns the body for an attempt, where it is a retry one for which canRetry reported true. After the last attempt there is no
// other.
func (p *payload) open(last bool) io.ReadCloser {
	switch {
	case p.file != nil:
		p.unsent = false
		return p.file.open()
	case p.stream != nil:
		p.unsent = false
		if last {
			p.stream.stop(nil)
		}
		p.current = p.stream.open()
		return p.current
	case p.unsent:
		p.unsent = false
		return p.req.Body
	case p.next != nil:
		body := p.next
		p.next = nil
		return body
	}
	return p.req.Body // nil or http.NoBody
}

// again is a GetBody for the request of one attempt, nil where the body cannot be had twice at a time.
func (p *payload) again() func() (io.ReadCloser, error) {
	if p.file != nil {
		return p.file.reopen
	}
	return p.req.GetBody
}

// canRetry reports whether the body can be had again, and has the next copy at hand where GetBody makes it.
func (p *payload) canRetry() bool {
	switch {
	case p.stream != nil:
		return p.stream.complete()
	case p.file != nil, p.req.Body == nil, p.req.Body == http.NoBody:
		return true
	case p.req.GetBody == nil:
		return false
	}
	body, err := p.req.GetBody()
	if err != nil || body == nil {
		return false
	}
	p.next = body
	return true
}

// commit makes certain that the body can be had again: from here on the attempt that has it reads no more of it. It waits no
// longer than the limit (0: there is none), nor than the channels are open, and returns how long it did.
func (p *payload) commit(limit time.Duration, done, cancel <-chan struct{}) (waited time.Duration, ok bool) {
	if p.stream == nil {
		return 0, true
	}
	return p.stream.freeze(p.current, limit, done, cancel)
}

// wait returns when the attempt has closed the body, or one of the channels ends the waiting.
func (p *payload) wait(done, cancel <-chan struct{}) {
	if p.current == nil {
		return
	}
	select {
	case <-p.current.idle:
	case <-done:
	case <-cancel:
	}
}

// readError is the failure of the caller's own reader, where it is known.
func (p *payload) readError() error {
	switch {
	case p.stream != nil:
		return p.stream.failure()
	case p.file != nil:
		if err := p.file.failure.Load(); err != nil {
			return *err
		}
	}
	return nil
}

// release ends the handing out: what was not handed out is closed, and the rest is when those who read it have closed it.
func (p *payload) release() {
	if p.next != nil {
		p.next.Close()
		p.next = nil
	}
	switch {
	case p.file != nil:
		p.file.release()
	case p.stream != nil:
		p.stream.stop(p.current)
		p.stream.release()
	case p.unsent:
		p.req.Body.Close()
	}
	p.unsent = false
}

// A sharedCloser closes the caller's body when everybody who has a share has released it.
type sharedCloser struct {
	src    io.ReadCloser
	shares atomic.Int32
}

func (s *sharedCloser) share(src io.ReadCloser) {
	s.src = src
	s.shares.Store(1)
}

func (s *sharedCloser) release() error {
	if s.shares.Add(-1) == 0 {
		return s.src.Close()
	}
	return nil
}

// inPlace is a body that is read at offsets.
type inPlace struct {
	sharedCloser
	rest    *io.SectionReader     // what the caller left of it
	failure atomic.Pointer[error] // of reading it
}

// readInPlace returns nil where the body is not an io.ReaderAt whose size and current offset are known.
func readInPlace(req *http.Request) *inPlace {
	rest := inplace.Section(req.Body, req.ContentLength)
	if rest == nil {
		return nil
	}
	f := &inPlace{rest: rest}
	f.share(req.Body)
	return f
}

func (f *inPlace) open() io.ReadCloser {
	f.shares.Add(1)
	return f.section()
}

func (f *inPlace) section() *section {
	return &section{SectionReader: io.NewSectionReader(f.rest, 0, f.rest.Size()), file: f}
}

// reopen is open for a Base that rewinds a request itself. It fails once the caller's body is closed.
func (f *inPlace) reopen() (io.ReadCloser, error) {
	for {
		shares := f.shares.Load()
		if shares == 0 {
			return nil, fs.ErrClosed
		}
		if f.shares.CompareAndSwap(shares, shares+1) {
			return f.section(), nil
		}
	}
}

// A section is one attempt's view of a body that is read in place.
type section struct {
	*io.SectionReader
	file   *inPlace
	closed atomic.Bool
}

func (s *section) Read(p []byte) (int, error) {
	n, err := s.SectionReader.Read(p)
	return n, s.note(err)
}

func (s *section) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.SectionReader.ReadAt(p, off)
	return n, s.note(err)
}

// note keeps a failure of the caller's reader, unless it comes of the body's being closed.
func (s *section) note(err error) error {
	if err != nil && err != io.EOF && !s.closed.Load() {
		s.file.failure.CompareAndSwap(nil, &err)
	}
	return err
}

func (s *section) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return s.file.release()
}
