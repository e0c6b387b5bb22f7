package awsretry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"example.com/awsretry/internal/neterr"
	"example.com/awsretry/internal/redact"
	"example.com/awsretry/internal/wait"
)

// An Error is the error of a request that ended without a response. Its Err is
// the last error of the transport, or the reason why nothing was sent. After
// StopCanceled, and after StopDeadline if the deadline has passed, it is the
// error of the context, with its cause and the last failure. errors.Is and errors.As
// find all of these. errors.Is also finds [ErrQuotaExceeded] and [ErrRateLimited], by
// the Stop.
//
// The methods of a nil *Error, which a Base may return by mistake, do not
// panic.
type Error struct {
	Attempts int  // how many were sent; for a body that broke off, since its last byte
	Stop     Stop // why no attempt followed
	Err      error

	// MaybeExecuted reports that the service may have executed one of the
	// attempts although none succeeded, see [Attempt].
	MaybeExecuted bool
}

// Error returns how many attempts were sent, why no attempt followed, and the
// text of Err. URLs in it have no query.
func (e *Error) Error() string {
	var outcome string
	switch {
	case e == nil:
		return "awsretry: a nil *Error"
	case e.Attempts == 0:
		outcome = fmt.Sprintf("not sent (%s)", e.Stop)
	case e.Stop == StopCanceled:
		outcome = "canceled after " + attempts(e.Attempts)
	default:
		outcome = fmt.Sprintf("gave up after %s (%s)", attempts(e.Attempts), e.Stop)
	}
	return "awsretry: " + outcome + ": " + strings.TrimPrefix(redact.Error(e.Err), "awsretry: ")
}

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// Is reports whether target is [ErrQuotaExceeded] and Stop is StopQuota, or
// target is [ErrRateLimited] and Stop is StopRateLimit. Err may be another
// failure then.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrQuotaExceeded:
		return e != nil && e.Stop == StopQuota
	case ErrRateLimited:
		return e != nil && e.Stop == StopRateLimit
	}
	return false
}

// Timeout reports whether the last failure was a timeout, as net.Error does.
// If the context ended the call, it reports whether the deadline passed.
func (e *Error) Timeout() bool {
	var end *wait.Interruption
	switch {
	case e == nil:
		return false
	case errors.As(e.Err, &end):
		return end.TimedOut()
	case e.Stop == StopCanceled:
		return errors.Is(e.Err, context.DeadlineExceeded)
	}
	return neterr.TimedOut(e.Err)
}

// interrupted reports whether the end of the context ended the call.
func (e *Error) interrupted() bool {
	var end *wait.Interruption
	return errors.As(e.Err, &end)
}

// Temporary reports whether the last failure was retryable.
func (e *Error) Temporary() bool {
	if e == nil {
		return false
	}
	switch e.Stop {
	case StopMaxAttempts, StopQuota, StopDeadline, StopBody, StopRetryAfter, StopRateLimit,
		StopOuterRetry, StopDisabled:
		return true
	}
	return false
}

// A failure is what an error says about an attempt that failed: the transport's
// error or, of a response that was closed, the status and the code. The zero
// value is no failure.
type failure struct {
	err    error
	status int
	code   string
}

func (f failure) error() error {
	if f.err == nil && f.status != 0 {
		return &responseError{f.status, f.code}
	}
	return f.err
}

// after returns err with the failure that came before it, if there was one.
func (f failure) after(err error) error {
	if last := f.error(); last != nil {
		return fmt.Errorf("%w; before that: %w", err, last)
	}
	return err
}

// A responseError is the last failure if that was a response, which is closed.
type responseError struct {
	status int
	code   string
}

func (e *responseError) Error() string {
	text := fmt.Sprintf("%d %s", e.status, http.StatusText(e.status))
	if e.code != "" {
		text += " (" + redact.Text(e.code) + ")"
	}
	return "the last response was " + strings.TrimSpace(text)
}
