// Package ownfault marks the errors of attempts that never left the process because
// of a fault of the sender. They do not show anything about the endpoint.
package ownfault

import "errors"

// An Error is a fault of the sender.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Is reports whether err is a fault of the sender.
func Is(err error) bool { return errors.As(err, new(*Error)) }
