package replay

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"example.com/awsretry/internal/wait"
)

// A reading is a Read of the caller's reader in progress, or a call of GetBody.
type reading struct {
	ended chan struct{} // closed when it has ended
}

// running reports whether it has not ended.
func (r *reading) running() bool {
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

func newReading() *reading { return &reading{make(chan struct{})} }

// maxRead is the size of the largest Read of the caller's reader.
const maxRead = 64 << 10

// waitFor waits until r has ended, the timeout has passed or ctx has ended. r may
// be nil.
func waitFor(ctx context.Context, r *reading, timeout time.Duration) {
	if r != nil {
		wait.For(ctx, timeout, r.ended)
	}
}

// read begins a Read of up to n bytes of the caller's reader for c. It requires
// that s.mu is held and that no Read is in progress.
func (s *stream) read(c *copied, n int) {
	n = min(n, maxRead)
	free := s.limit - int64(len(s.kept))
	s.reading = newReading()
	s.enter()
	if s.again != nil && (s.passing.compares() || !s.lost && free <= 0) {
		go s.readInto(s.passing.begin(n), s.ReadCloser)
		return
	}
	switch {
	case s.lost:
	case free <= 0:
		c.exceeded = true
	default: // only a Read that begins with a full buffer may exceed the limit
		n = int(min(int64(n), free))
	}
	s.grow(n)
	go s.readInto(s.kept[len(s.kept):len(s.kept)+n], s.ReadCloser)
}

// readInto is the goroutine of one Read.
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

// record records the result of a Read. It returns what must be closed, or nil.
func (s *stream) record(n int, err error, panicked any) (toClose io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.passing.room != nil {
		if !s.passing.add(n, err) {
			s.lost, s.fault, err = true, ErrDiffers, ErrDiffers
		}
	} else {
		s.kept = s.kept[:len(s.kept)+n]
	}
	s.end, s.panic, s.cut = err, panicked, s.closed && err != io.EOF && err != ErrDiffers
	toClose = s.leave()
	if toClose == nil && s.over && err != nil {
		toClose = s.claimClose()
	}
	return toClose
}

// endRead is endReading for callers that do not hold s.mu.
func (s *stream) endRead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endReading()
}

// endReading ends the reading in progress. It requires that s.mu is held.
func (s *stream) endReading() {
	close(s.reading.ended)
	s.reading = nil
}

// readOnce recovers a panic of the caller's reader and returns it as a value, so
// that the Read of a copy can panic instead of the goroutine.
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
	if s.again != nil && s.sized && !s.lost {
		size = max(need, int(min(s.limit, s.length)))
	}
	s.kept = append(make([]byte, 0, size), s.kept...)
}
