// Package poll waits for an asynchronous operation. It asks for the operation's
// state again and again, with growing delays, until the operation is done.
//
// The rules are those of the AWS General Reference, "Error retries and
// exponential backoff".
//
// # When the poller dies
//
// The operation goes on at its service. What is lost is in memory: which
// operation it was, until when to wait for it, and how many checks there were.
// Write the operation's name and the deadline down before the first check, and
// have the next process call Until again with them. It begins with the first
// delay, and Config.MaxAttempts counts its own checks only, so bound the whole
// wait by the deadline. A check only reads, so that it may be made again, also
// by two processes at once. The example Resume does this.
//
// If the process may die before it knows the operation's name, start the
// operation with an idempotency key that was written down before, and start it
// again with the same key.
package poll

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/retrier"
)

// A State is what a check found out about the operation.
type State int

// The states.
const (
	Done        State = iota // the operation has ended, well or not; polling ends
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

// class returns the class that a Backoff gets for a state. An operation that is
// not ready is not a failure of its service.
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
// "Error retries and exponential backoff". It has a maximum but gives no
// number. 20 s is from the AWS SDKs and Tools Reference Guide, "Retry
// behavior".
const (
	defaultInitial = 100 * time.Millisecond
	defaultMax     = 20 * time.Second
)

// A Config configures Until. The zero Config polls until the context ends.
type Config struct {
	// Backoff returns the delay before each check, the first included. It gets
	// the number of the check, from 0, and the class of the state before it:
	// Success before the first check and after NotReady, Throttled after
	// Throttled, Transient after ServerError. nil: 100 ms, doubled each time up
	// to 20 s, without jitter, which a single poller does not need.
	Backoff awsretry.Backoff

	MaxAttempts int           // checks in all; 0: until the context ends
	Observe     func(Attempt) // called after every check that returned, before the next delay; nil: not called
}

// An Attempt is the record of one check.
type Attempt struct {
	Number  int           // from 1
	Waited  time.Duration // the delay before the check
	Elapsed time.Duration // the time that the check took
	State   State
	Err     error         // that the check returned with the state
	Delay   time.Duration // before the next check; 0 also if there is none
	Last    bool          // there is no next check
}

// ErrMaxAttempts is in the error that [Until] returns if the operation was not
// done after Config.MaxAttempts checks.
var ErrMaxAttempts = errors.New("poll: the operation was not done at the last attempt")

// An Error is what [Until] returns if it gave up. errors.Is and errors.As find
// Reason and Err in it.
type Error struct {
	Attempts int   // checks that were made
	State    State // of the last check; without a meaning if there was none
	Err      error // the last one that a check returned with its state, nil if none did
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

// Until waits and calls check, again and again, until check returns Done or
// there are no more attempts. It returns the error that check returned with
// Done: nil, or the error with which the operation or the check failed for
// good. An error with another state does not end the polling; the last one is
// in the Error at the end.
//
// The first check comes after the first delay, because an operation that has
// only just started is not done yet.
//
// When ctx ends, so does the delay, and Until returns an [*Error] with ctx's
// cause and the result of the last check. check gets ctx and has to return when
// ctx ends: Until calls it on its own goroutine and waits for it, so that no
// check goes on after Until, and a panic of check reaches the caller. Done
// counts even if check returns it late.
//
// Until returns an error at once if config is invalid, and an [*Error] if check
// returns a state that is not defined.
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

// giveUp returns why polling ends after a, although the operation is not known
// to be done. nil: it goes on.
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
	var err error
	switch b := c.Backoff.(type) {
	case awsretry.Exponential:
		err = b.Validate()
	case *awsretry.Exponential:
		err = b.Validate()
	case awsretry.Decorrelated:
		err = b.Validate()
	case *awsretry.Decorrelated:
		err = b.Validate()
	}
	if err != nil {
		return errors.New("poll: Config." + strings.TrimPrefix(err.Error(), "awsretry: "))
	}
	return nil
}

// sleep returns nil after d, or why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return cause(ctx)
}

// cause returns ctx's cause, with ctx's error if that is another one.
func cause(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err != nil && !errors.Is(cause, err) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return cause
}
