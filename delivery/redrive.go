package delivery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"example.com/awsretry/internal/respbody"
)

// A redrive is one run of a Redriver.
type redrive struct {
	*Redriver
	dir      string
	disk     disk
	done     Redriven
	failures int // in a row
}

// A deletionError ends the run: any further letter might be sent twice too.
type deletionError struct {
	what string
	err  error
}

func (e *deletionError) Error() string { return e.what + ": " + e.err.Error() }

func (e *deletionError) Unwrap() error { return e.err }

func (r *redrive) run(ctx context.Context) (Redriven, error) {
	entries, err := readFolder(r.dir)
	if err != nil {
		return r.done, fmt.Errorf("delivery: Redrive: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("delivery: Redrive: %w", context.Cause(ctx)))
			break
		}
		if r.Limit > 0 && r.done.Delivered+r.done.Kept+r.done.Unsent >= r.Limit {
			break
		}
		path := filepath.Join(r.dir, entry.Name())
		if isTemp(entry.Name()) {
			if !r.DryRun {
				r.sweep(path)
			}
			continue
		}
		result := LetterResult{Letter: Letter{Name: entry.Name()}}
		result.Result, result.Err = r.redrive(ctx, path, entry, &result.Letter)
		r.count(result)
		if result.Err != nil {
			errs = append(errs, fmt.Errorf("delivery: Redrive: %s: %w", path, unnamed(result.Err)))
		}
		if r.Observe != nil && result.Result != "" {
			r.Observe(result)
		}
		if deletion := (*deletionError)(nil); errors.As(result.Err, &deletion) {
			break
		}
		if r.MaxFailures > 0 && r.failures >= r.MaxFailures {
			errs = append(errs, fmt.Errorf("delivery: Redrive: %w: %d", unnamed(ErrMaxFailures), r.failures))
			break
		}
	}
	return r.done, errors.Join(errs...)
}

func (r *redrive) count(result LetterResult) {
	switch result.Result {
	case Delivered:
		r.done.Delivered++
		r.failures = 0
	case Kept:
		r.done.Kept++
		r.failures++
	case Broken:
		r.done.Broken++
	case Busy:
		r.done.Busy++
	case Unsent:
		r.done.Unsent++
	}
}

// redrive locks a letter, reads it, sends it and deletes it. The result is ""
// if the letter went away meanwhile.
func (r *redrive) redrive(ctx context.Context, path string, entry fs.DirEntry, letter *Letter) (Result, error) {
	flag := os.O_RDWR // some file systems require it for a lock
	if r.DryRun {
		flag = os.O_RDONLY
	}
	f, size, err := openLetter(r.dir, entry, flag)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // another Redrive delivered it
	}
	if err != nil {
		return Broken, err
	}
	defer f.Close()
	letter.Size = size
	if !r.DryRun {
		switch locked, err := lock(f); {
		case err != nil && !errors.Is(err, errors.ErrUnsupported): // a file system may have no locks
			return Kept, err
		case err == nil && !locked:
			return Busy, nil
		case !stillAt(path, f):
			return "", nil // another Redrive delivered it before the lock
		}
	}
	head, req, err := readLetter(f, size)
	if err != nil {
		return Broken, fmt.Errorf("not a whole dead letter: %w", err)
	}
	head.Name, head.Size = letter.Name, letter.Size
	*letter = head
	if r.DryRun {
		return Unsent, nil
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := r.Base.RoundTrip(req.WithContext(ctx))
	if err == nil && resp != nil && resp.Body != nil {
		_, upgraded := resp.Body.(io.Writer) // a connection that changed hands
		// The rest of the body is read while the letter is deleted.
		defer respbody.Discard(resp, !upgraded, cancel).Finish(ctx, drainWait)
	}
	if err := failure(ctx, resp, err); err != nil {
		return Kept, err
	}
	if !canLock {
		f.Close() // such a system may not delete an open file
	}
	return Delivered, r.delete(path)
}

// stillAt reports whether f is the file at path.
func stillAt(path string, f *os.File) bool {
	at, err := os.Stat(path)
	if err != nil {
		return false
	}
	opened, err := f.Stat()
	return err == nil && os.SameFile(at, opened)
}

// drainWait limits how long the rest of a response body is read, so that its
// connection can be used for the next letter.
const drainWait = time.Second

// failure returns why a letter was not delivered, nil if it was.
func failure(ctx context.Context, resp *http.Response, err error) error {
	switch {
	case err != nil && ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)):
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	case err != nil:
		return err
	case resp == nil:
		return errors.New("rt returned neither a response nor an error")
	case !delivered(resp):
		return fmt.Errorf("got %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return nil
}

// delete deletes a letter that was delivered.
func (r *redrive) delete(path string) error {
	if err := r.disk.remove(path); err != nil {
		return &deletionError{"it was delivered and could not be deleted, and will be sent again", err}
	}
	if err := r.disk.syncDir(r.dir); err != nil {
		return &deletionError{
			"it was delivered and deleted, but after a crash of the machine it may be there, and be sent, again", err,
		}
	}
	return nil
}

// tempAge is how old a half-written file is at least if a crash is the reason.
// A newer one may not be locked yet.
const tempAge = time.Minute

// sweep deletes a half-written file whose writer has crashed.
func (r *redrive) sweep(path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !canLock || time.Since(info.ModTime()) < tempAge {
		return
	}
	if locked, err := lock(f); err == nil && locked {
		_ = r.disk.remove(path)
	}
}
