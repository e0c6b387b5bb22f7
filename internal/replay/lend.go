package replay

import (
	"bytes"
	"io"
	"net/http"
)

// A loan is the body of a request that another Body, whose attempts it serves,
// recognizes: both then use the file or the stream of the lender, so that a
// stream is kept once.
type loan struct {
	io.ReadCloser // a copy, for code that does not recognize the loan
	lender        *Body
}

// Lend gives req, a copy of the caller's request, a body for a call that makes
// attempts of its own. That call closes its copies and not the caller's reader.
// After it, b may take the body back with Freeze and Attach.
func (b *Body) Lend(req *http.Request) {
	b.Attach(req)
	if b.file != nil || b.stream != nil {
		req.Body, req.GetBody = &loan{req.Body, b}, nil
	}
}

// borrow makes b use what the lender of l has. The limit of a stream remains
// the lender's.
func (b *Body) borrow(l *loan, once bool) {
	b.borrowed = true
	b.file, b.stream = l.lender.file, l.lender.stream
	if b.stream != nil {
		b.stream.once = once
	}
}

// Whole returns a function that opens the whole body, apart from the attempts,
// whose copies it leaves alone. It returns nil if the body is neither in memory
// nor read in place, nor a stream that was read to its end and is kept.
func (b *Body) Whole() (open func() io.Reader) {
	switch {
	case b.memory.known():
		memory := b.memory
		return memory.open
	case b.file != nil:
		return func() io.Reader { return b.file.section() }
	case b.stream != nil:
		if kept, ok := b.stream.whole(); ok {
			return func() io.Reader { return bytes.NewReader(kept) }
		}
	}
	return nil
}

// whole returns all of the body, if it was read to its end and is kept.
func (s *stream) whole() ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept, s.keeps() && s.intact() && s.end == io.EOF
}

// Idle reports whether Base has closed the newest copy of a stream, so that it
// can be taken back at once although Base may still be sending its response.
func (b *Body) Idle() bool {
	if b.stream == nil {
		return true
	}
	b.stream.mu.Lock()
	defer b.stream.mu.Unlock()
	c, ok := b.stream.current.(*copied)
	return b.stream.reading == nil && (!ok || c.closed)
}
