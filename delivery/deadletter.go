package delivery

import (
	"errors"
	"fmt"
	"net/http"
)

// A DeadLetter is a delivery that failed for good: permanently, at the last attempt, or because its caller gave up.
type DeadLetter struct {
	// Request is the request as it was sent, with a body that can be read, once,
	// until the function that takes the dead letter returns; it need not be closed.
	// GetBody is set where the body can be read more than once. Where the body
	// cannot be read again, reading it fails with an error that is [ErrBody]; so it
	// does where nothing of it comes for as long as Transport.AttemptTimeout, or
	// where it does not end within an hour.
	Request *http.Request

	Attempts int            // that were made; 0 where the caller gave up before the first
	Response *http.Response // the last attempt's, without its body, which is the caller's; nil where Err is not
	Err      error          // what ended the delivery where no response did

	// Reason says why there was no further attempt. It is the text of an awsretry.Stop: "permanent", "max_attempts",
	// "canceled" or "deadline" (the caller's context), "body" (the body cannot be
	// read again), "disabled"; or "panic", where Base or a hook of the Transport
	// panicked.
	Reason string
}

// ErrBody is in the error of reading a [DeadLetter]'s request body that cannot be had again: it is longer than
// what is kept of a body that has no GetBody and is no io.ReaderAt, or its own reader failed.
var ErrBody = errors.New("delivery: the request body cannot be read again")

// lost returns the error of reading a body that is lost, for a reason that may
// be nil.
func lost(why error) error {
	if why == nil {
		return ErrBody
	}
	return fmt.Errorf("%w: %w", ErrBody, why)
}

// A lostBody is the body of a dead letter that would otherwise be cut short.
type lostBody struct{ err error }

func (b lostBody) Read([]byte) (int, error) { return 0, b.err }

func (lostBody) Close() error { return nil }
