package awsretry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"example.com/awsretry/internal/neterr"
	"example.com/awsretry/internal/redact"
)

// An Error is what RoundTrip returns where no answer came, or where the caller's context ended after the last answer
// was closed. errors.Is and errors.As find in it the transport's last error, the cause of the context's end, or
// [ErrQuotaExceeded] and [ErrRateLimited] where nothing was sent.
type Error struct {
	Attempts int  // that were sent
	Stop     Stop // why there were no more
	Err      error
}

// Error tells why there were no more attempts, how many there were, and the last failure. URLs in it have no query.
func (e *Error) Error() string {
	attempts := "attempts"
	if e.Attempts == 1 {
		attempts = "attempt"
	}
	return fmt.Sprintf("awsretry: %s after %d %s: %s", e.Stop, e.Attempts, attempts, redact.Error(e.Err))
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether the error is [ErrQuotaExceeded] or [ErrRateLimited] by its
// Stop, whatever failure Err holds.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrQuotaExceeded:
		return e.Stop == StopQuota
	case ErrRateLimited:
		return e.Stop == StopRateLimit
	}
	return false
}

// Timeout reports whether the last failure was a time-out, as net.Error does; after StopCanceled, whether the context's
// deadline ended it.
func (e *Error) Timeout() bool {
	var end *interruptedError
	switch {
	case errors.As(e.Err, &end):
		return errors.Is(end.why, context.DeadlineExceeded) || errors.Is(end.ctx, context.DeadlineExceeded)
	case e.Stop == StopCanceled:
		return errors.Is(e.Err, context.DeadlineExceeded)
	}
	return neterr.TimedOut(e.Err)
}

// Temporary reports whether the failure may pass: whether it was given up although it is retryable.
func (e *Error) Temporary() bool {
	switch e.Stop {
	case StopMaxAttempts, StopQuota, StopDeadline, StopBody, StopRetryAfter, StopRateLimit, StopOuterRetry, StopDisabled:
		return true
	}
	return false
}

// An answerError stands for an answer that was closed when the pause behind it did not end well.
type answerError struct {
	status int
	code   string
}

func (e *answerError) Error() string {
	text := fmt.Sprintf("%d %s", e.status, http.StatusText(e.status))
	if e.code != "" {
		text += " (" + redact.Text(e.code) + ")"
	}
	return "the last answer was " + strings.TrimSpace(text)
}

// An interruptedError is the error of a call whose caller wants no answer any more: it holds the context's error, its cause, and
// the failure before it, where there are such.
type interruptedError struct{ ctx, why, last error }

func interruption(ctx context.Context, why, last error) error {
	return &interruptedError{ctx.Err(), why, last}
}

func (e *interruptedError) Error() string {
	if e.last != nil && errors.Is(e.last, e.why) { // the transport's own words for it
		return e.last.Error()
	}
	text := e.why.Error()
	if e.ctx != nil && !errors.Is(e.why, e.ctx) {
		text = e.ctx.Error() + ": " + text
	}
	if e.last != nil {
		text += "; before that: " + e.last.Error()
	}
	return text
}

func (e *interruptedError) Unwrap() []error {
	all := []error{e.why}
	for _, err := range []error{e.ctx, e.last} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}
