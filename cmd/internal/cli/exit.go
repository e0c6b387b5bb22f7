package cli

import "errors"

// The exit statuses other than 0.
const (
	Failure     = 1
	Usage       = 2   // also of every error that is not an [Error], such as cobra's
	HTTPError   = 22  // as in curl --fail
	Interrupted = 130 // as of a process that SIGINT ends
)

// statuses are in the help of each command, unless the command describes a status
// in its own words, and in docs/SCRIPTS.md.
var statuses = []struct {
	status int
	when   string // "": only of commands that say when
}{
	{0, "success"},
	{Failure, "an error, such as a file that cannot be read or a service that does not respond"},
	{Usage, "wrong usage: the command line alone shows that it cannot work, and nothing was done"},
	{HTTPError, ""},
	{Interrupted, "interrupted by Ctrl-C or SIGTERM"},
}

// An Error is an error with an exit status.
type Error struct {
	Status int
	Err    error // nil: the command has already reported the reason
}

func (e *Error) Error() string {
	if e.Err == nil {
		return "already reported"
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Failed returns err with the status [Failure]. It returns nil for a nil err.
func Failed(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Status: Failure, Err: err}
}

// Reported returns an error whose reason the command has already reported.
func Reported(status int) error { return &Error{Status: status} }

// ErrInterrupted is reported instead of the error that an interruption causes.
var ErrInterrupted = errors.New("interrupted")
