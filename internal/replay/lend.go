package replay

import (
	"bytes"
	"io"
	"net/http"
)

// A loan is a request body that another Body recognizes. The borrower then uses
// the lender's file or stream, so that a stream is kept only once.
type loan struct {
	io.ReadCloser // a copy, for code that does not recognize the loan
	lender        *Body
}

// Lend sets the body of req, a copy of the caller's request, for a call that makes
// its own attempts. That call closes its copies, but not the caller's reader. After
// the call, b may take the body back with Freeze and Attach.
func (b *Body) Lend(req *http.Request) {
	b.Attach(req)
	if b.file != nil || b.stream != nil {
		req.Body, req.GetBody = &loan{req.Body, b}, nil
	}
}

// borrow makes b use the lender's file or stream. The limit of a stream remains
// the lender's.
func (b *Body) borrow(l *loan, once bool) {
	b.borrowed = true
	b.file, b.stream = l.lender.file, l.lender.stream
	if b.stream != nil {
		b.stream.once = once
	}
}

// Whole returns a function that opens the whole body and does not affect the
// copies of the attempts. It returns nil unless the body is in memory, is read in
// place, or is a stream that was read to its end and kept.
func (b *Body) Whole() (open func() io.Reader) {
	switch {
	case b.memory.known():
		memory := b.memory
		return memory.open
	case b.file != nil:
		file := b.file // b stays on the stack
		return func() io.Reader { return file.section() }
	case b.stream != nil:
		if kept, ok := b.stream.whole(); ok {
			return func() io.Reader { return bytes.NewReader(kept) }
		}
	}
	return nil
}

// whole returns all of the body if it was read to its end and kept.
func (s *stream) whole() ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept, s.intact() && !s.rewinds() && s.end == io.EOF
}

// Idle reports whether Base has closed the newest copy of a stream. Then the
// stream can be taken back at once, even if Base still sends its response.
func (b *Body) Idle() bool {
	if b.stream == nil {
		return true
	}
	b.stream.mu.Lock()
	defer b.stream.mu.Unlock()
	c, ok := b.stream.current.(*copied)
	return b.stream.reading == nil && (!ok || c.closed)
}
