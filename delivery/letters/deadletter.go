package letters

import "net/http"

// A DeadLetter is a delivery that failed for good: permanently, at the last
// attempt, or because its caller gave up.
// A delivery.Transport hands it to its DeadLetter function.
type DeadLetter struct {
	// Request is the request as it was sent. Its body can be read once, until
	// the function that takes the dead letter returns, and need not be closed.
	// GetBody is set if the body can be read more than once, and is valid for
	// as long as the body is.
	//
	// If the body cannot be read again, reading it fails with an error that
	// matches delivery.ErrBody. A read also fails if the body makes no progress
	// for Transport.AttemptTimeout, or does not end within an hour.
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
