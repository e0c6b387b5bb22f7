package delivery

import (
	"context"
	"fmt"
	"io"
	"time"
)

// maxReading limits how long the body of a dead letter may take in all. It is
// the limit on the retries of a delivery at Amazon SNS.
const maxReading = time.Hour

// A patientReader reads the body of a dead letter from a source that may be
// slow. It gives up when a Read takes longer than idle, and at until; after
// that, every Read fails, even if the source ends.
//
// Its errors match ErrBody.
type patientReader struct {
	src    io.ReadCloser
	giveUp context.CancelCauseFunc // ends a Read of src with an error
	idle   time.Duration
	until  time.Time
	lost   error
}

func (r *patientReader) Read(p []byte) (int, error) {
	if r.lost != nil {
		return 0, r.lost
	}
	timer := time.AfterFunc(min(r.idle, time.Until(r.until)), r.timeOut)
	defer timer.Stop()
	n, err := r.src.Read(p)
	if err != nil && err != io.EOF {
		r.lost = lost(err)
		err = r.lost
	}
	return n, err
}

func (r *patientReader) timeOut() {
	if time.Now().Before(r.until) {
		r.giveUp(fmt.Errorf("nothing of it came for %v", r.idle))
	} else {
		r.giveUp(fmt.Errorf("it did not end within %v", maxReading))
	}
}

func (r *patientReader) Close() error {
	defer r.giveUp(nil)
	return r.src.Close()
}
