package awsretry

import (
	"errors"
	"io"
	"math"
	"net/http"
	"sync"
	"time"
)

// A recorder keeps what attempts read of a body that cannot be had again.
type recorder struct {
	sharedCloser
	limit int64 // of kept, in bytes

	mu sync.Mutex
	// The fields below are guarded by mu. src is read without it, by one recording at a time: the next one is opened
	// when the one before it is closed and its last Read has returned.
	kept    []byte
	end     error // what src ended with: io.EOF, or its failure
	lost    bool  // more was read than may be kept
	stopped bool  // no retry will come: nothing need be kept
}

func (r *recorder) open() *recording {
	r.shares.Add(1)
	return &recording{rec: r, idle: make(chan struct{})}
}

// complete reports whether all that was read is kept, and can be followed by the rest.
func (r *recorder) complete() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.completeLocked()
}

// completeLocked requires that r.mu is held.
func (r *recorder) completeLocked() bool { return !r.lost && (r.end == nil || r.end == io.EOF) }

// freeze ends the attempt's reading, and reports whether the body is still complete then. What a Read that is under way
// brings is kept, whatever r.limit; where it does not end in time, or before the channels do, the attempt goes on reading.
func (r *recorder) freeze(attempt *recording, limit time.Duration, done, cancel <-chan struct{}) (waited time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.completeLocked() {
		return 0, false
	}
	attempt.frozen = true
	if attempt.reading {
		start := time.Now()
		attempt.waitForRead(limit, done, cancel)
		waited = time.Since(start)
	}
	attempt.frozen = !attempt.reading && r.completeLocked()
	return waited, attempt.frozen
}

// waitForRead returns when the Read that is under way has ended, or the waiting is over. It requires that rec.mu is held, which
// it gives up meanwhile.
func (c *recording) waitForRead(limit time.Duration, done, cancel <-chan struct{}) {
	paused := make(chan struct{})
	c.paused = paused
	c.rec.mu.Unlock()
	defer func() {
		c.rec.mu.Lock()
		c.paused = nil
	}()
	var late <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-paused:
	case <-late:
	case <-done:
	case <-cancel:
	}
}

func (r *recorder) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end == io.EOF {
		return nil
	}
	return r.end
}

// stop ends the keeping: no attempt comes after the one that reads, or will read, through attempt (nil: none does yet).
func (r *recorder) stop(attempt *recording) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	if attempt != nil {
		r.forget(attempt)
	}
}

// forget lets go of what was kept once nobody is to read it any more. It requires that r.mu is held.
func (r *recorder) forget(attempt *recording) {
	if r.stopped && (attempt.closed || attempt.pos == len(r.kept)) {
		r.kept, attempt.pos = nil, 0
	}
}

// errFrozen is what an attempt reads whose answer came before its body was sent, when the next attempt is to have the body.
var errFrozen = errors.New("awsretry: the attempt is over; the rest of the body goes to the next one")

// A recording is one attempt's view of a recorded body.
type recording struct {
	rec  *recorder
	idle chan struct{} // closed once the recording is closed and no Read is under way

	// Guarded by rec.mu.
	pos     int
	reading bool
	paused  chan struct{} // where it is set, closed by the Read that is under way
	frozen  bool
	closed  bool
}

func (c *recording) Read(p []byte) (int, error) {
	r := c.rec
	r.mu.Lock()
	switch {
	case c.closed:
		r.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	case c.frozen:
		r.mu.Unlock()
		return 0, errFrozen
	case c.pos < len(r.kept):
		n := copy(p, r.kept[c.pos:])
		c.pos += n
		r.forget(c)
		r.mu.Unlock()
		return n, nil
	case r.end != nil:
		r.mu.Unlock()
		return 0, r.end
	case len(p) == 0:
		r.mu.Unlock()
		return 0, nil
	}
	// No more than fits is asked for, so that only a Read that begins with the buffer full can lose the body.
	if free := r.limit - int64(len(r.kept)); !r.stopped && !r.lost && free > 0 && int64(len(p)) > free {
		p = p[:free]
	}
	c.reading = true
	r.mu.Unlock()

	return c.readSource(p)
}

// readSource reads what nobody has read before. It requires that c.reading is set.
func (c *recording) readSource(p []byte) (n int, err error) {
	r := c.rec
	err = errors.New("awsretry: the request body's Read panicked") // unless it returns
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		c.reading = false
		if n > 0 {
			r.keep(p[:n], c)
		}
		if err != nil {
			r.end = err
		}
		if c.paused != nil {
			close(c.paused)
			c.paused = nil
		}
		if c.closed {
			close(c.idle)
		}
	}()
	n, err = r.src.Read(p)
	return n, err
}

// keep requires that r.mu is held.
func (r *recorder) keep(p []byte, attempt *recording) {
	switch {
	case r.stopped || r.lost:
		r.kept, attempt.pos = nil, 0
	case attempt.frozen || int64(len(r.kept)+len(p)) <= r.limit:
		r.grow(len(p))
		r.kept = append(r.kept, p...)
		attempt.pos = len(r.kept)
	default:
		r.lost = true
		r.kept, attempt.pos = nil, 0
	}
}

// grow makes room for n bytes, and for no more than the limit unless n asks for it. It requires that r.mu is held.
func (r *recorder) grow(n int) {
	need := len(r.kept) + n
	if need <= cap(r.kept) {
		return
	}
	size := max(need, min(2*cap(r.kept), int(min(r.limit, math.MaxInt))))
	r.kept = append(make([]byte, 0, size), r.kept...)
}

func (c *recording) Close() error {
	r := c.rec
	r.mu.Lock()
	if c.closed {
		r.mu.Unlock()
		return nil
	}
	c.closed = true
	if !c.reading {
		close(c.idle)
		r.forget(c)
	}
	r.mu.Unlock()
	return r.release()
}
