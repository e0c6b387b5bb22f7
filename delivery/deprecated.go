package delivery

import (
	"context"
	"io"
	"iter"
	"net/http"
	"time"

	"example.com/awsretry/delivery/letters"
)

// The names that package letters had when it was a part of this package.

// DirQueue returns the Put of a letters.Dir.
//
// Deprecated: use [letters.Dir.Put].
func DirQueue(dir string) func(context.Context, DeadLetter) error {
	return (&letters.Dir{Path: dir}).Put
}

// List yields the heads of the dead letters in dir.
//
// Deprecated: use [letters.Dir.List].
func List(dir string) iter.Seq2[Letter, error] { return (&letters.Dir{Path: dir}).List() }

// Redrive sends the dead letters in dir again through rt.
//
// Deprecated: use [letters.Dir.Redrive].
func Redrive(ctx context.Context, dir string, rt http.RoundTripper) (Redriven, error) {
	return (&letters.Dir{Path: dir}).Redrive(ctx, rt, letters.RedriveOptions{})
}

// A Redriver sends dead letters again.
//
// Deprecated: use [letters.Dir.Redrive] and [letters.RedriveOptions].
type Redriver struct {
	Base        http.RoundTripper
	Limit       int
	MaxFailures int
	DryRun      bool
	Observe     func(LetterResult)
}

// Redrive sends the dead letters in dir again.
//
// Deprecated: use [letters.Dir.Redrive].
func (r *Redriver) Redrive(ctx context.Context, dir string) (Redriven, error) {
	return (&letters.Dir{Path: dir}).Redrive(ctx, r.Base, letters.RedriveOptions{
		Limit: r.Limit, MaxFailures: r.MaxFailures, DryRun: r.DryRun, Observe: r.Observe,
	})
}

// WriteLetter writes a dead letter to w.
//
// Deprecated: use [letters.Write].
func WriteLetter(w io.Writer, dead DeadLetter, now time.Time) error {
	return letters.Write(w, dead, now)
}

// ReadLetter reads what WriteLetter wrote.
//
// Deprecated: use [letters.Read].
func ReadLetter(r io.ReaderAt, size int64) (Letter, *http.Request, error) {
	return letters.Read(r, size)
}

// Letter is the head of a dead letter's file.
//
// Deprecated: use [letters.Letter].
type Letter = letters.Letter

// LetterResult is the outcome of one letter.
//
// Deprecated: use [letters.Record].
type LetterResult = letters.Record

// Redriven counts letters by result.
//
// Deprecated: use [letters.Counts].
type Redriven = letters.Counts

// Result is the outcome of one letter.
//
// Deprecated: use [letters.Result].
type Result = letters.Result

// The results.
//
// Deprecated: use the constants of package letters.
const (
	Delivered = letters.Delivered
	Kept      = letters.Kept
	Broken    = letters.Broken
	Busy      = letters.Busy
	Unsent    = letters.Unsent
)

// ErrMaxFailures is in the error of a Redrive that stopped at MaxFailures.
//
// Deprecated: use [letters.ErrMaxFailures].
var ErrMaxFailures = letters.ErrMaxFailures
