package letters

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

// RedriveOptions limits a Redrive and reports on it. The zero value sends all
// letters.
type RedriveOptions struct {
	Limit       int  // letters to send at most; 0: all
	MaxFailures int  // letters kept in a row before Redrive stops; 0: no limit
	DryRun      bool // only find which letters would be sent: nothing is sent, deleted or locked

	// Observe is called once for each file, when Redrive is done with it: for a
	// letter that was delivered, after it was deleted. nil: not called.
	Observe func(Record)
}

// Counts is the number of letters with each [Result].
type Counts struct {
	Delivered int // got a 2xx and were deleted, unless the error says that one could not be
	Kept      int // got another response or none; still there
	Broken    int // cannot be read or are not letters; still there
	Busy      int // skipped: another Redrive was sending them
	Unsent    int // would have been sent, but it was a dry run
}

// A Result is the outcome of one letter.
type Result string

// The results, one for each field of [Counts].
const (
	Delivered Result = "delivered"
	Kept      Result = "kept"
	Broken    Result = "broken"
	Busy      Result = "busy"
	Unsent    Result = "unsent"
)

// A Record is what [RedriveOptions].Observe gets of one letter.
type Record struct {
	Letter Letter // only Name and Size if the file could not be read
	Result Result
	Err    error // why the letter was not delivered, or was delivered and not deleted for good; nil otherwise
}

// ErrMaxFailures is in the error of a Redrive that stopped at MaxFailures.
var ErrMaxFailures = errors.New("letters: too many failures in a row")

// Redrive sends the dead letters again through rt, one after the other, the
// oldest first. It deletes a letter that gets a 2xx, and keeps any other and
// continues with the next. The error joins one error for each letter that was
// kept and for each file that is not a complete letter, with the file's path;
// errors.Is and errors.As work through it. When ctx ends, so does Redrive, with
// ctx's cause in the error. Letters that are added while Redrive runs are left
// for the next Redrive. A folder that does not exist has no letters: the first
// Put creates it.
//
// Redrive locks each letter while it sends it, see [Dir], and skips one that
// another Redrive has locked. A crash loses no letter: a letter is deleted
// after its response, and durably before the next one is sent, so at most one
// letter is sent twice. If a letter that was delivered cannot be deleted,
// Redrive stops.
//
// rt is usually a delivery.Transport with the policy of the first delivery and
// without a DeadLetter, which would put what fails again into the folder a
// second time. rt may be nil for a dry run. Redrive also deletes files that a
// crash left half-written, after a minute.
func (d *Dir) Redrive(ctx context.Context, rt http.RoundTripper, options RedriveOptions) (Counts, error) {
	return d.redrive(ctx, osDisk{}, rt, options)
}

func (d *Dir) redrive(ctx context.Context, disk disk, rt http.RoundTripper, options RedriveOptions) (Counts, error) {
	dir, err := d.clean()
	switch {
	case err != nil:
		return Counts{}, err
	case rt == nil && !options.DryRun:
		return Counts{}, errors.New("letters: Redrive: rt is nil; it must be a RoundTripper")
	case options.Limit < 0:
		return Counts{}, fmt.Errorf("letters: RedriveOptions.Limit is %d; it must be above 0, or 0 for all letters",
			options.Limit)
	case options.MaxFailures < 0:
		return Counts{}, fmt.Errorf("letters: RedriveOptions.MaxFailures is %d; it must be above 0, or 0 for no limit",
			options.MaxFailures)
	}
	r := redrive{options: options, rt: rt, dir: dir, disk: disk}
	return r.run(ctx)
}

// A redrive is one run of Redrive.
type redrive struct {
	options  RedriveOptions
	rt       http.RoundTripper
	dir      string
	disk     disk
	done     Counts
	failures int // in a row
}

// A deletionError ends the run, because any further letter might be sent twice
// too.
type deletionError struct {
	what string
	err  error
}

func (e *deletionError) Error() string { return e.what + ": " + e.err.Error() }

func (e *deletionError) Unwrap() error { return e.err }

func (r *redrive) run(ctx context.Context) (Counts, error) {
	entries, err := readFolder(r.dir)
	if err != nil {
		return r.done, fmt.Errorf("letters: Redrive: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("letters: Redrive: %w", context.Cause(ctx)))
			break
		}
		if r.options.Limit > 0 && r.done.Delivered+r.done.Kept+r.done.Unsent >= r.options.Limit {
			break
		}
		path := filepath.Join(r.dir, entry.Name())
		if isTemp(entry.Name()) {
			if !r.options.DryRun {
				r.sweep(path)
			}
			continue
		}
		result := Record{Letter: Letter{Name: entry.Name()}}
		result.Result, result.Err = r.send(ctx, path, entry, &result.Letter)
		r.count(result)
		if result.Err != nil {
			errs = append(errs, fmt.Errorf("letters: Redrive: %s: %w", path, result.Err))
		}
		if r.options.Observe != nil && result.Result != "" {
			r.options.Observe(result)
		}
		if deletion := (*deletionError)(nil); errors.As(result.Err, &deletion) {
			break
		}
		if r.options.MaxFailures > 0 && r.failures >= r.options.MaxFailures {
			errs = append(errs, fmt.Errorf("%w: %d", ErrMaxFailures, r.failures))
			break
		}
	}
	return r.done, errors.Join(errs...)
}

func (r *redrive) count(result Record) {
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

// send locks a letter, reads it, sends it and deletes it. The result is ""
// if another Redrive deleted the letter.
func (r *redrive) send(ctx context.Context, path string, entry fs.DirEntry, letter *Letter) (Result, error) {
	flag := os.O_RDWR // some file systems require it for a lock
	if r.options.DryRun {
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
	if !r.options.DryRun {
		switch locked, err := lock(f); {
		case err != nil && !errors.Is(err, errors.ErrUnsupported): // a file system may have no locks
			return Kept, err
		case err == nil && !locked:
			return Busy, nil
		case !stillAt(path, f):
			return "", nil // another Redrive delivered it before this one locked it
		}
	}
	head, req, err := readLetter(f, size)
	if err != nil {
		return Broken, fmt.Errorf("not a whole dead letter: %w", err)
	}
	head.Name, head.Size = letter.Name, letter.Size
	*letter = head
	if r.options.DryRun {
		return Unsent, nil
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := r.rt.RoundTrip(req.WithContext(ctx))
	if err == nil && resp != nil && resp.Body != nil {
		_, upgraded := resp.Body.(io.Writer) // an upgraded connection
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

// drainWait limits how long the rest of a response body is read so that its
// connection can be reused for the next letter.
const drainWait = time.Second

// failure returns why a letter was not delivered, or nil if it was.
func failure(ctx context.Context, resp *http.Response, err error) error {
	switch {
	case err != nil && ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)):
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	case err != nil:
		return err
	case resp == nil:
		return errors.New("rt returned neither a response nor an error")
	case resp.StatusCode/100 != 2:
		return fmt.Errorf("got %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return nil
}

// delete deletes a letter that was delivered, durably.
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

// tempAge is the least age of a half-written file that a crash left. A newer
// one may not be locked yet.
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
