package delivery

import (
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	// maxReading is how long the body of a dead letter may take all together, as
	// long as Amazon SNS lets the retries of a delivery take.
	maxReading = time.Hour
	// closeWait is how long a Read may take to notice that its source was closed.
	closeWait = time.Second
)

// A patientReader reads the body of a dead letter. The source may be slow, but
// where a Read takes longer than idle, or the time is up, it is closed and the
// body is lost: an end of the source after that is no end of the body. A Read
// that goes on even then is left behind.
//
// Its errors are ErrBody.
type patientReader struct {
	src   io.Reader
	close func() // ends a Read that hangs
	idle  time.Duration
	until time.Time

	buffer []byte // what src reads into; not p, which a Read that is left behind must not write to
	lost   error
}

func newPatientReader(src io.Reader, idle time.Duration, close func()) *patientReader {
	return &patientReader{src: src, close: close, idle: idle, until: time.Now().Add(maxReading)}
}

// A readResult is what a Read returned, or panicked with.
type readResult struct {
	n        int
	err      error
	panicked any
}

func (r *patientReader) Read(p []byte) (int, error) {
	if r.lost != nil {
		return 0, r.lost
	}
	if r.buffer == nil {
		r.buffer = make([]byte, 32<<10)
	}
	results := make(chan readResult, 1)
	go func(buffer []byte) {
		result := readResult{panicked: errors.New("runtime.Goexit in a Read")}
		defer func() {
			if result.panicked != nil {
				if value := recover(); value != nil {
					result.panicked = value
				}
			}
			results <- result
		}()
		n, err := r.src.Read(buffer)
		result = readResult{n: n, err: err}
	}(r.buffer[:min(len(p), len(r.buffer))])

	timer := time.NewTimer(min(r.idle, time.Until(r.until)))
	defer timer.Stop()
	select {
	case result := <-results:
		if result.panicked != nil {
			panic(result.panicked)
		}
		if result.err != nil && result.err != io.EOF {
			r.lost = fmt.Errorf("%w: %w", ErrBody, result.err)
			result.err = r.lost
		}
		return copy(p, r.buffer[:result.n]), result.err
	case <-timer.C:
	}

	r.lost = fmt.Errorf("%w: no byte of it came for %v", ErrBody, r.idle)
	if !time.Now().Before(r.until) {
		r.lost = fmt.Errorf("%w: it did not end within %v", ErrBody, maxReading)
	}
	r.close()
	timer.Reset(closeWait)
	select {
	case result := <-results:
		if result.err != nil {
			r.lost = fmt.Errorf("%w: %w", r.lost, result.err)
		}
	case <-timer.C:
	}
	return 0, r.lost
}
