package statuspage

import (
	"strings"
	"sync"
	"time"

	"example.com/awsretry"
)

// span is how many seconds a record covers: the last minute.
const span = 60

// A record has what is counted of a partition.
type record struct {
	name string

	mu      sync.Mutex // guards the fields below
	seconds [span]second
	failure *failure // the last one; nil if there was none
}

// A second has what was counted in one second.
type second struct {
	unix      int64 // which second
	sent      uint32
	retries   uint32
	failed    uint32
	refusals  uint32 // the sum of by
	by        [len(refusals)]uint32
	unnamedBy uint32 // by a Stop that refusals does not have
}

// refusals are the reasons to make no attempt although there was no response, or
// one that a retry might mend.
var refusals = [...]awsretry.Stop{
	awsretry.StopQuota, awsretry.StopRateLimit, awsretry.StopRetryAfter, awsretry.StopMaxAttempts, awsretry.StopDeadline,
	awsretry.StopCanceled, awsretry.StopBody, awsretry.StopOuterRetry, awsretry.StopDisabled,
}

// A failure is the outcome of an attempt that failed.
type failure struct {
	at      time.Time
	class   awsretry.Class
	status  int // 0: no response
	code    string
	err     string // not yet redacted
	stop    awsretry.Stop
	attempt int
}

// These limit what is kept of a failure, in bytes.
const (
	maxError = 1024
	maxCode  = 200
)

func failureOf(a *awsretry.Attempt) *failure {
	f := &failure{class: a.Class, code: strings.Clone(a.Code[:min(len(a.Code), maxCode)]), stop: a.Stop, attempt: a.Number}
	if a.Response != nil {
		f.status = a.Response.StatusCode
	}
	if a.Err != nil {
		f.err = a.Err.Error()
		if len(f.err) > maxError { // not in the middle of a URL, whose secrets would no longer be recognized
			f.err = f.err[:maxError]
			f.err = f.err[:strings.LastIndexAny(f.err, " \t\n")+1] + "…"
		}
	}
	return f
}

// count counts an attempt, and keeps it if it failed.
func (r *record) count(now time.Time, a *awsretry.Attempt, failed *failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	unix := now.Unix()
	s := &r.seconds[slot(unix)]
	if s.unix != unix {
		*s = second{unix: unix}
	}
	if a.Number > 0 { // else nothing was sent
		s.sent++
	}
	if a.Number > 1 {
		s.retries++
	}
	if failed != nil {
		failed.at = now
		r.failure = failed
		if a.Number > 0 {
			s.failed++
		}
	}
	s.refuse(a.Stop)
}

// refuse counts a Stop, unless it is that of a success or of a failure that no
// retry mends.
func (s *second) refuse(stop awsretry.Stop) {
	switch stop {
	case "", awsretry.StopSuccess, awsretry.StopPermanent:
		return
	}
	s.refusals++
	for i := range refusals {
		if stop == refusals[i] {
			s.by[i]++
			return
		}
	}
	s.unnamedBy++
}

// minute returns the seconds up to now, the oldest first, and the last failure.
func (r *record) minute(now time.Time) (seconds [span]second, last *failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := now.Unix() - span + 1
	for i := range seconds {
		if s := r.seconds[slot(first+int64(i))]; s.unix == first+int64(i) {
			seconds[i] = s
		}
	}
	return seconds, r.failure
}

// slot returns where the record has a second.
func slot(unix int64) int { return int(uint64(unix) % span) }
