package delivery

import (
	"errors"
	"fmt"

	"example.com/awsretry/delivery/letters"
)

// A DeadLetter is a delivery that failed for good: permanently, at the last
// attempt, or because its caller gave up. See [letters.DeadLetter] for its
// fields.
type DeadLetter = letters.DeadLetter

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
