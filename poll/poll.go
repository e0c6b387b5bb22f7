// Package poll waits for an asynchronous operation. It asks for the operation's
// state again and again, with growing delays, until the operation is done.
//
// The rules are those of the AWS General Reference, "Error retries and
// exponential backoff".
//
// # When the poller dies
//
// The operation continues at its service, but the process loses its name, the
// deadline and the number of checks. Store the name and the deadline before the
// first check, so that the next process can call Until with them. It begins
// with the first delay, and Config.MaxAttempts counts its own checks only, so
// bound the whole wait by the deadline. A check only reads, so it can be
// repeated, even by two processes at once. See the example Resume.
//
// If the process may die before it knows the operation's name, store an
// idempotency key first, and start the operation again with the same key.
package poll

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/invalid"
	"example.com/awsretry/internal/retrier"
	"example.com/awsretry/internal/wait"
)

// A State is the state of the operation that a check found.
type State int

// The states.
const (
	Done        State = iota // the operation succeeded or failed; polling ends
	NotReady                 // it is still running
	Throttled                // the service asked for fewer requests
	ServerError              // the service failed
)

// String returns the state in words, such as "not ready".
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

// class returns the class that a Backoff gets for a state. NotReady is not a
// failure of the service.
func (s State) class() awsretry.Class {
	switch s {
	case Throttled:
		return awsretry.Throttled
	case ServerError:
		return awsretry.Transient
	}
	return awsretry.Success
}

// The default delays, 2^n * 100 ms, are those of the AWS General Reference,
// "Error retries and exponential backoff". It mentions a maximum without a
// value; 20 s is from the AWS SDKs and Tools Reference Guide, "Retry
// behavior".
const (
	defaultInitial = 100 * time.Millisecond
	defaultMax     = 20 * time.Second
)

// A Config configures Until. The zero Config polls until the context ends.
type Config struct {
	// Backoff returns the delay before each check, the first included. It gets
	// the number of the check, from 0, and the class of the previous state:
	// Success before the first check and after NotReady, Throttled after
	// Throttled, Transient after ServerError. nil: 100 ms, doubled each time up
	// to 20 s, without jitter, which a single poller does not need.
	Backoff awsretry.Backoff

	MaxAttempts int           // maximum number of checks; 0: no limit
	Observe     func(Attempt) // called after every check, before the next delay; nil: not called
}

// An Attempt is the record of one check.
type Attempt struct {
	Number  int           // from 1
	Waited  time.Duration // the delay before this check
	Elapsed time.Duration // the time that the check took
	State   State
	Err     error         // that the check returned with the state
	Delay   time.Duration // the delay before the next check; 0 if Last
	Last    bool          // no check follows
}

// ErrMaxAttempts is in the error that [Until] returns if the operation was not
// done after Config.MaxAttempts checks.
var ErrMaxAttempts = errors.New("poll: the operation was not done at the last attempt")

// An Error is the error of [Until] if it gave up. errors.Is and errors.As find
// Reason and Err.
type Error struct {
	Attempts int   // checks that were made
	State    State // of the last check; undefined if Attempts is 0
	Err      error // the last error that a check returned with its state; nil if none did
	Reason   error // why polling ended: the context's cause, ErrMaxAttempts, or an invalid state
}

// Error returns the reason, the last state and the last error.
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

// Until calls check, with a delay before each call, until check returns Done or
// Config.MaxAttempts is reached. It returns the error that check returned with
// Done: nil, or the error of an operation that failed. An error with another
// state does not end the polling; Until's [*Error] has the last one.
//
// A delay precedes the first check too, because an operation that has just
// started is not done yet.
//
// When ctx ends, Until stops waiting and returns an [*Error] with ctx's cause
// and the result of the last check. check must return when its context, ctx,
// ends: Until calls it on its own goroutine, so no check outlives Until, and a
// panic in check reaches the caller. Done counts even if check returns it after
// ctx has ended.
//
// Until returns an error at once if config is invalid, and an [*Error] if check
// returns an undefined State.
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
		if last.Reason = sleep(ctx, a.Delay); last.Reason != nil {
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
		last.Reason = config.giveUp(ctx, a)
		if a.Last = a.State == Done || last.Reason != nil; !a.Last {
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

// giveUp returns why polling ends after a without Done, or nil if it does not.
func (c Config) giveUp(ctx context.Context, a Attempt) error {
	switch {
	case a.State == Done:
		return nil
	case a.State < Done || a.State > ServerError:
		return fmt.Errorf(
			"check returned %v, which is not a state; it must be Done, NotReady, Throttled or ServerError", a.State)
	case ctx.Err() != nil:
		return cause(ctx)
	case a.Number == c.MaxAttempts:
		return ErrMaxAttempts
	}
	return nil
}

func (c Config) validate(check func(context.Context) (State, error)) error {
	switch {
	case check == nil:
		return errors.New("poll: check is nil; it must be a function")
	case c.MaxAttempts < 0:
		return fmt.Errorf("poll: Config.MaxAttempts is %d; it must be above 0, or 0 for no limit", c.MaxAttempts)
	}
	if retrier.IsNil(c.Backoff) {
		return fmt.Errorf("poll: Config.Backoff is a nil %T; it must be a usable Backoff, or nil for the default",
			c.Backoff)
	}
	return invalid.Within("poll: Config.", (&awsretry.Transport{Backoff: c.Backoff}).Validate())
}

// sleep waits for d. It returns ctx's cause if ctx ends, and otherwise nil.
func sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		wait.For(ctx, d, nil)
	}
	return cause(ctx)
}

// cause returns ctx's cause, wrapped together with ctx's error if they differ.
func cause(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err != nil && !errors.Is(cause, err) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return cause
}
