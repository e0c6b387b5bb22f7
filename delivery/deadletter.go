package delivery

import (
	"errors"
	"fmt"
	"net/http"
)

// A DeadLetter is a delivery that failed for good: permanently, at the last
// attempt, or because its caller gave up.
type DeadLetter struct {
	// Request is the request as it was sent. Its body can be read once, until
	// the function that takes the dead letter returns, and need not be closed.
	// GetBody is set if the body can be read more than once, and is valid for
	// as long as the body is.
	//
	// If the body cannot be read again, reading it fails with an error that
	// matches ErrBody. A read also fails if the body makes no progress for
	// Transport.AttemptTimeout, or does not end within an hour.
	Request *http.Request

	Attempts int            // that were made; 0 if the caller gave up before the first
	Response *http.Response // the last attempt's, without its body, which is the caller's; nil if Err is not
	Err      error          // what ended the delivery; nil if a response did

	// Reason is why no other attempt was made, as the text of an awsretry.Stop:
	// "permanent", "max_attempts", "canceled" or "deadline" (of the caller's
	// context), "body" (it cannot be sent again), "disabled"; or "panic" if
	// Base or a hook of the Transport panicked.
	Reason string
}

// ErrBody is in the error of reading the request body of a [DeadLetter] that
// cannot be read again: it has no GetBody, is not an io.ReaderAt and is longer
// than the buffer of 1 MiB, its own reader failed, or it took too long.
var ErrBody = errors.New("delivery: the request body cannot be read again")

// lost returns the error of a body that cannot be read again. why may be nil.
func lost(why error) error {
	if why == nil {
		return ErrBody
	}
	return fmt.Errorf("%w: %w", ErrBody, why)
}

// A lostBody is the body of a dead letter that cannot be read again. Reading it
// fails, so that the body is not taken for an empty one.
type lostBody struct{ err error }

func (b lostBody) Read([]byte) (int, error) { return 0, b.err }

func (lostBody) Close() error { return nil }
