package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
)

// Redriven counts the letters in a folder by result.
type Redriven struct {
	Delivered int // got a 2xx and were deleted, unless the error says that one could not be
	Kept      int // got another response or none; still there
	Broken    int // cannot be read or are not letters; still there
	Busy      int // left to another Redrive that was sending them
	Unsent    int // would have been sent, but it was a dry run
}

// A Result is the outcome of one letter.
type Result string

// The results, one for each field of [Redriven].
const (
	Delivered Result = "delivered"
	Kept      Result = "kept"
	Broken    Result = "broken"
	Busy      Result = "busy"
	Unsent    Result = "unsent"
)

// A LetterResult is the record of one letter.
type LetterResult struct {
	Letter Letter // only Name and Size if the file could not be read
	Result Result
	Err    error // why the letter was not delivered, or was delivered and not deleted for good; nil otherwise
}

// ErrMaxFailures is in the error of a [Redriver] that stopped at MaxFailures.
var ErrMaxFailures = errors.New("delivery: too many failures in a row")

// Redrive sends the dead letters in dir again through rt, one after the other,
// the oldest first. It deletes a letter that gets a 2xx. It keeps any other and
// goes on with the next. The error joins one for each letter that was kept and
// one for each file that is not a whole letter, with the file's name; errors.Is
// and errors.As work through it. When ctx ends, so does Redrive, with ctx's
// cause in the error. Letters that come while it runs are left for the next
// Redrive. A folder that does not exist has no letters: the first one creates
// it.
//
// A file lock keeps two Redrives, in one process or many, from sending the same
// letter at the same time. (A system or a file system may not have such locks.
// Here Windows and Solaris do not: run one Redrive at a time.) A crash ends the
// lock. It loses nothing: a letter is deleted after its response, and for good
// before the next one is sent, so that at most one letter is sent twice. If a
// letter that was delivered cannot be deleted, Redrive stops.
//
// rt is usually a [Transport] with the policy of the first delivery and without
// a DeadLetter, which would add what fails again to the queue a second time.
// Redrive also deletes files that a crash of [DirQueue] left half-written.
//
// A [Redriver] does the same with limits and a report on each letter.
func Redrive(ctx context.Context, dir string, rt http.RoundTripper) (Redriven, error) {
	if rt == nil {
		return Redriven{}, errors.New("delivery: Redrive: rt is nil; it must be a RoundTripper")
	}
	return (&Redriver{Base: rt}).Redrive(ctx, dir)
}

// A Redriver sends dead letters again, as [Redrive] does.
type Redriver struct {
	Base        http.RoundTripper // sends each letter
	Limit       int               // letters to send at most; 0: all
	MaxFailures int               // letters kept in a row before Redrive stops; 0: no limit
	DryRun      bool              // only find which letters would be sent: nothing is sent, deleted or locked

	// Observe is called once for each file, when Redrive is done with it: for a
	// letter that was delivered, after it was deleted. nil: not called.
	Observe func(LetterResult)
}

// Redrive sends the letters in dir.
func (r *Redriver) Redrive(ctx context.Context, dir string) (Redriven, error) {
	switch {
	case dir == "":
		return Redriven{}, fmt.Errorf("delivery: Redrive: %w", errNoFolder)
	case r.Base == nil && !r.DryRun:
		return Redriven{}, errors.New("delivery: Redriver.Base is nil; it must be a RoundTripper")
	case r.Limit < 0:
		return Redriven{}, fmt.Errorf(
			"delivery: Redriver.Limit is %d; it must be above 0, or 0 for all letters", r.Limit)
	case r.MaxFailures < 0:
		return Redriven{}, fmt.Errorf("delivery: Redriver.MaxFailures is %d; it must be above 0, or 0 for no limit",
			r.MaxFailures)
	}
	run := redrive{Redriver: r, dir: filepath.Clean(dir), disk: osDisk{}}
	return run.run(ctx)
}
