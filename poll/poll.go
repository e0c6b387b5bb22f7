// Package poll waits for an asynchronous operation: it asks for the operation's state again and again, with pauses
// that grow, until the operation is done.
//
// The rules are those of the AWS General Reference, "Error retries and exponential backoff".
package poll

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"example.com/awsretry"
)

// A State is what a check found out about the operation.
type State int

// The states.
const (
	Done        State = iota // the operation has ended, well or not; polling ends
	NotReady                 // it is still running
	Throttled                // the service asked for fewer requests
	ServerError              // the service failed to answer
)

func (s State) String() string {
	switch s {
	case Done:
		return "done"
	case NotReady:
		return "not ready"
	case Throttled:
		return "throttled"
	case ServerError:
		return "server error"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// class is what a state means to a Backoff. An operation that is not ready is no failure of its service.
func (s State) class() awsretry.Class {
	switch s {
	case Throttled:
		return awsretry.Throttled
	case ServerError:
		return awsretry.Transient
	}
	return awsretry.Success
}

// The default pauses, 2^n * 100 ms, are those of the AWS General Reference, "Error retries and exponential backoff". It has
// a maximum without naming one; 20 s is that of the AWS SDKs and Tools Reference Guide, "Retry behavior".
const (
	defaultInitial = 100 * time.Millisecond
	defaultMax     = 20 * time.Second
)

// A Config says how to poll. The zero value polls until the context ends.
type Config struct {
	// Backoff says how long to pause before each check, the first included. It is given the number of the check, from 0, and the
	// class of the state before it: Success before the first and after NotReady, Throttled, Transient after ServerError.
	// nil: 100 ms, doubled each time, at most 20 s, without jitter, which one poller alone does not need.
	Backoff awsretry.Backoff

	MaxAttempts int           // checks in all; 0: until the context ends
	Observe     func(Attempt) // called after every check that returned, before the next pause; nil: nobody is told
}

// An Attempt is the record of one check.
type Attempt struct {
	Number  int           // from 1
	Waited  time.Duration // the pause before the check
	Elapsed time.Duration // the time that the check took
	State   State
	Err     error         // what the check returned beside the state
	Delay   time.Duration // the pause before the next check; 0 also where none follows
	Last    bool          // no check follows
}

// ErrMaxAttempts is in the error that [Until] returns when Config.MaxAttempts checks did not find the operation done.
var ErrMaxAttempts = errors.New("poll: the operation was not done at the last attempt")

// An Error is what [Until] returns when it gave the operation up. errors.Is and errors.As find Reason and Err in it.
type Error struct {
	Attempts int   // checks that were made
	State    State // of the last check; of no meaning where none was made
	Err      error // the last one that a check returned beside its state; nil where none did
	Reason   error // why polling ended: the context's cause, ErrMaxAttempts, or that a state does not exist
}

func (e *Error) Error() string {
	checks := "attempts"
	if e.Attempts == 1 {
		checks = "attempt"
	}
	text := fmt.Sprintf("poll: gave up after %d %s: %v", e.Attempts, checks, e.Reason)
	if e.Attempts > 0 {
		text += fmt.Sprintf("; the last state was %s", e.State)
	}
	if e.Err != nil {
		text += fmt.Sprintf("; the last error was: %v", e.Err)
	}
	return text
}

// Unwrap returns Reason and Err.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Err}
}

// Until pauses and calls check, again and again, until check returns Done or an attempt is the last. It returns what check
// returned beside Done: nil, or the error with which the operation, or the asking for it, failed for good. An error beside
// another state is kept for the end, and polling goes on.
//
// The first check comes after the first pause: an operation that was only just started is not done yet.
//
// When ctx ends, so does the pause; the error is an [*Error] with ctx's cause and what the last check found. check
// gets ctx, and has to return when ctx ends: Until calls it on its own goroutine and does not return before it,
// because a check that was left behind would go on running. What such a late check found still counts. So a panic in check
// reaches the caller of Until, with nothing left behind.
//
// A Config that makes no sense, and a state that does not exist, are errors.
func Until(ctx context.Context, config Config, check func(ctx context.Context) (State, error)) error {
	if err := config.validate(check); err != nil {
		return err
	}
	backoff := config.Backoff
	if backoff == nil {
		backoff = awsretry.Exponential{Initial: defaultInitial, Max: defaultMax, Jitter: awsretry.NoJitter}
	}
	var last Error
	a := Attempt{Delay: max(backoff.Delay(0, awsretry.Success, 0), 0)}
	for {
		if err := sleep(ctx, a.Delay); err != nil {
			last.Reason = err
			return &last
		}
		a = Attempt{Number: a.Number + 1, Waited: a.Delay}

		start := time.Now()
		a.State, a.Err = check(ctx)
		a.Elapsed = time.Since(start)

		last.Attempts, last.State = a.Number, a.State
		if a.Err != nil {
			last.Err = a.Err
		}
		a.Last = true
		switch {
		case a.State == Done:
		case a.State < Done || a.State > ServerError:
			last.Reason = fmt.Errorf("check returned %v, which is no state; it must be Done, NotReady, Throttled or ServerError", a.State)
		case ctx.Err() != nil:
			last.Reason = sleep(ctx, 0)
		case a.Number == config.MaxAttempts:
			last.Reason = ErrMaxAttempts
		default:
			a.Last = false
			a.Delay = max(backoff.Delay(a.Number, a.State.class(), a.Waited), 0)
		}
		if config.Observe != nil {
			config.Observe(a)
		}
		switch {
		case a.State == Done:
			return a.Err
		case a.Last:
			return &last
		}
	}
}

func (c Config) validate(check func(context.Context) (State, error)) error {
	switch {
	case check == nil:
		return errors.New("poll: check is nil; it must be a function")
	case c.MaxAttempts < 0:
		return fmt.Errorf("poll: Config.MaxAttempts is %d; it must be above 0, or 0 for no limit", c.MaxAttempts)
	}
	if err := (&awsretry.Transport{Backoff: c.Backoff}).Validate(); err != nil { // which knows the backoffs of its package
		return errors.New("poll: Config." + strings.TrimPrefix(err.Error(), "awsretry: Transport."))
	}
	return nil
}

// sleep returns nil after the pause, or the reason for which ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	err, cause := ctx.Err(), context.Cause(ctx)
	if err != nil && !errors.Is(cause, err) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return cause
}
