package delivery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Redriven says what became of the letters in a folder, in numbers.
type Redriven struct {
	Delivered int // answered with a 2xx, and deleted unless the error says that one could not be
	Kept      int // answered otherwise, or not answered; still there
	Broken    int // not to be read, or no letters at all; still there
	Busy      int // left to another Redrive that had them at the time
	Unsent    int // to be sent, if it had not been a dry run
}

// A Result says what became of one letter.
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
	Letter Letter // only Name and Size where the head cannot be read
	Result Result
	Err    error // why the letter was not delivered, or was delivered and not deleted for good; nil otherwise
}

// ErrMaxFailures is in the error of a [Redriver] that stopped at MaxFailures.
var ErrMaxFailures = errors.New("delivery: too many failures in a row")

// Redrive sends the dead letters in dir again, through rt and one after the other, the oldest first. A letter that is answered
// with a 2xx is deleted; any other is kept, and Redrive goes on with the next. The error joins one for each
// letter that was kept and each file that is no whole letter, with the file's name; errors.Is and errors.As see through it.
// When ctx ends, so does Redrive, with ctx's cause in the error. Letters that come while it runs are left for the next.
// A folder that does not exist, as before its first letter, is an error that is [fs.ErrNotExist].
//
// Each letter is held by a file lock while it is sent, so that of several Redrives, in one process or many, one sends
// it. (Where the system or the file system has no such lock, as Windows and Solaris here, run one at a time.) A crash ends the lock, and at
// any point it loses nothing: the letter is deleted after the answer, for good before the next one is sent, so
// that at most the one under way is sent twice. If a delivered letter cannot be deleted, Redrive stops.
//
// rt is usually a [Transport] with the policy of the first delivery and no DeadLetter of its own, which
// would put what fails again into the queue a second time. Files that a crash of [DirQueue] left half-written are deleted.
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
	MaxFailures int               // letters that are kept, one after the other, before the rest is left alone; 0: no limit
	DryRun      bool              // only look which letters would be sent: nothing is sent, deleted or locked

	// Observe is called once for each file, when nothing more happens to it: for a
	// letter that was delivered after it was deleted. nil: not called.
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
		return Redriven{}, fmt.Errorf("delivery: Redriver.Limit is %d; it must be above 0, or 0 for all letters", r.Limit)
	case r.MaxFailures < 0:
		return Redriven{}, fmt.Errorf("delivery: Redriver.MaxFailures is %d; it must be above 0, or 0 for no limit", r.MaxFailures)
	}
	run := redrive{Redriver: r, dir: filepath.Clean(dir), disk: osDisk{}}
	return run.run(ctx)
}

// List yields the heads of the dead letters in dir, the oldest first. A file that is no letter is an error with its name, beside a
// Letter that has only Name and Size; the rest is still listed. Only the beginning of each file is read.
// A folder that does not exist, as before its first letter, is an error that is [fs.ErrNotExist].
func List(dir string) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		if dir == "" {
			yield(Letter{}, fmt.Errorf("delivery: List: %w", errNoFolder))
			return
		}
		dir := filepath.Clean(dir)
		entries, err := os.ReadDir(dir)
		if err != nil {
			yield(Letter{}, fmt.Errorf("delivery: List: %w", err))
			return
		}
		for _, entry := range entries {
			if isTemp(entry.Name()) {
				continue
			}
			letter, err := listed(dir, entry)
			if errors.Is(err, fs.ErrNotExist) {
				continue // it was delivered meanwhile
			}
			if err != nil {
				err = fmt.Errorf("delivery: List: %s: %w", filepath.Join(dir, entry.Name()), err)
			}
			if !yield(letter, err) {
				return
			}
		}
	}
}

func listed(dir string, entry fs.DirEntry) (Letter, error) {
	letter := Letter{Name: entry.Name()}
	f, size, err := openLetter(dir, entry, os.O_RDONLY)
	if err != nil {
		return letter, err
	}
	defer f.Close()
	letter.Size = size
	head, err := newLineReader(f).head()
	if err != nil {
		return letter, err
	}
	head.Name, head.Size = letter.Name, size
	return head.Letter, nil
}

func isTemp(name string) bool { return strings.HasSuffix(name, letterSuffix+tempSuffix) }

func openLetter(dir string, entry fs.DirEntry, flag int) (*os.File, int64, error) {
	if !entry.Type().IsRegular() || !strings.HasSuffix(entry.Name(), letterSuffix) {
		return nil, 0, errors.New("not a dead letter")
	}
	f, err := os.OpenFile(filepath.Join(dir, entry.Name()), flag, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// A redrive is one run of a Redriver.
type redrive struct {
	*Redriver
	dir      string
	disk     disk
	done     Redriven
	failures int // in a row
}

// A deletionError ends the run: to go on would send letters twice that are not
// deleted for good.
type deletionError struct {
	what string
	err  error
}

func (e *deletionError) Error() string { return e.what + ": " + e.err.Error() }

func (e *deletionError) Unwrap() error { return e.err }

func (r *redrive) run(ctx context.Context) (Redriven, error) {
	entries, err := os.ReadDir(r.dir)
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
		result.Result, result.Err = r.letter(ctx, path, entry, &result.Letter)
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

// letter sends one letter and deletes it. The result is "" where the letter went
// away meanwhile.
func (r *redrive) letter(ctx context.Context, path string, entry fs.DirEntry, letter *Letter) (Result, error) {
	flag := os.O_RDWR // which some file systems ask of a lock
	if r.DryRun {
		flag = os.O_RDONLY
	}
	f, size, err := openLetter(r.dir, entry, flag)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // another Redrive was here
	}
	if err != nil {
		return Broken, err
	}
	defer f.Close()
	letter.Size = size
	if !r.DryRun {
		switch held, err := lock(f); {
		case err != nil && !errors.Is(err, errors.ErrUnsupported): // a file system without locks is like a system without them
			return Kept, err
		case err == nil && !held:
			return Busy, nil
		case !stillAt(path, f):
			return "", nil // another Redrive delivered it between the opening and the locking
		}
	}
	req, err := readLetter(f, size)
	if err != nil {
		return Broken, fmt.Errorf("not a whole dead letter: %w", err)
	}
	if head, err := newLineReader(io.NewSectionReader(f, 0, size)).head(); err == nil {
		head.Name, head.Size = letter.Name, letter.Size
		*letter = head.Letter
	}
	if r.DryRun {
		return Unsent, nil
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := r.Base.RoundTrip(req.WithContext(ctx))
	switch {
	case err != nil:
		if ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return Kept, err
	case resp == nil:
		return Kept, errors.New("rt returned neither a response nor an error")
	}
	defer finish(resp, cancel)
	if !delivered(resp) {
		return Kept, fmt.Errorf("answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	if !canLock {
		f.Close() // a system that cannot lock a file may not delete an open one
	}
	if err := r.disk.remove(path); err != nil {
		return Delivered, &deletionError{"it was delivered and could not be deleted, and will be sent again", err}
	}
	if err := r.disk.syncDir(r.dir); err != nil {
		return Delivered, &deletionError{"it was delivered and deleted, but after a crash of the machine it may be there, and be sent, again", err}
	}
	return Delivered, nil
}

func delivered(resp *http.Response) bool { return resp.StatusCode/100 == 2 }

func stillAt(path string, f *os.File) bool {
	at, err := os.Stat(path)
	if err != nil {
		return false
	}
	opened, err := f.Stat()
	return err == nil && os.SameFile(at, opened)
}

// What is left of an answer is read, within limits, so that its connection can be used for the next letter.
const (
	drainLimit = 64 << 10
	drainWait  = time.Second
)

func finish(resp *http.Response, cancel context.CancelFunc) {
	if resp.Body == nil {
		return
	}
	defer resp.Body.Close()
	if _, ok := resp.Body.(io.Writer); ok {
		return // a connection that changed hands: nothing ends it but its Close
	}
	timer := time.AfterFunc(drainWait, cancel)
	defer timer.Stop()
	io.CopyN(io.Discard, resp.Body, drainLimit)
}

// tempAge is how old a half-written file has to be before a crash is taken for the reason. A new one may not be locked yet.
const tempAge = time.Minute

// sweep deletes a half-written file whose writer is gone.
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
	if held, err := lock(f); err == nil && held {
		r.disk.remove(path)
	}
}
