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

// Redriven says what became of the letters in a folder.
type Redriven struct {
	Delivered int // answered with a 2xx, and deleted unless the error says that one could not be
	Kept      int // answered otherwise, or not answered; still there
	Broken    int // not to be read, or no letters at all; still there
	Busy      int // left to another Redrive that had them at the time
}

// Redrive sends the dead letters in dir again, through rt and one after the other, the oldest first. A letter that is answered
// with a 2xx is deleted; any other is kept, and Redrive goes on with the next. The error joins one for each
// letter that was kept and each file that is no whole letter, with the file's name; errors.Is and errors.As see through it.
// When ctx ends, so does Redrive, with ctx's cause in the error. Letters that come while it runs are left for the next.
//
// Each letter is held by a file lock while it is sent, so that of several Redrives, in one process or many, one sends
// it. (Where the system or the file system has no such lock, as Windows and Solaris here, run one at a time.) A crash ends the lock, and at
// any point it loses nothing: the letter is deleted after the answer, for good before the next one is sent, so
// that at most the one under way is sent twice. If a delivered letter cannot be deleted, Redrive stops.
//
// rt is usually a [Transport] with the policy of the first delivery and no DeadLetter of its own, which
// would put what fails again into the queue a second time. Files that a crash of [DirQueue] left half-written are deleted.
func Redrive(ctx context.Context, dir string, rt http.RoundTripper) (Redriven, error) {
	r := redrive{dir: dir, rt: rt, disk: osDisk{}}
	return r.run(ctx)
}

// List yields the heads of the dead letters in dir, the oldest first. A file that is no letter is an error with its name, beside a
// Letter that has only Name and Size; the rest is still listed. Only the beginning of each file is read.
func List(dir string) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
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

type redrive struct {
	dir  string
	rt   http.RoundTripper
	disk disk
	done Redriven
}

// errStop ends the run: to go on would send letters again that cannot be deleted.
var errStop = errors.New("it was delivered and could not be deleted, and will be sent again")

func (r *redrive) run(ctx context.Context) (Redriven, error) {
	if r.rt == nil {
		return r.done, errors.New("delivery: Redrive: rt is nil; it must be a RoundTripper")
	}
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
		path := filepath.Join(r.dir, entry.Name())
		if isTemp(entry.Name()) {
			r.sweep(path)
			continue
		}
		if err := r.letter(ctx, path, entry); err != nil {
			errs = append(errs, fmt.Errorf("delivery: Redrive: %s: %w", path, err))
			if errors.Is(err, errStop) {
				break
			}
		}
	}
	return r.done, errors.Join(errs...)
}

// letter sends one letter and deletes it.
func (r *redrive) letter(ctx context.Context, path string, entry fs.DirEntry) error {
	f, size, err := openLetter(r.dir, entry, os.O_RDWR) // writable, which some file systems ask of a lock
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another Redrive was here
	}
	if err != nil {
		r.done.Broken++
		return err
	}
	defer f.Close()
	switch held, err := lock(f); {
	case err != nil && !errors.Is(err, errors.ErrUnsupported): // a file system without locks is like a system without them
		r.done.Kept++
		return err
	case err == nil && !held:
		r.done.Busy++
		return nil
	case !stillAt(path, f):
		return nil // another Redrive delivered it between the opening and the locking
	}
	req, err := readLetter(f, size)
	if err != nil {
		r.done.Broken++
		return fmt.Errorf("not a whole dead letter: %w", err)
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := r.rt.RoundTrip(req.WithContext(ctx))
	switch {
	case err != nil:
		r.done.Kept++
		if ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return err
	case resp == nil:
		r.done.Kept++
		return errors.New("rt returned neither a response nor an error")
	}
	defer finish(resp, cancel)
	if !delivered(resp) {
		r.done.Kept++
		return fmt.Errorf("answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	r.done.Delivered++
	if !canLock {
		f.Close() // a system that cannot lock a file may not delete an open one
	}
	if err := r.disk.remove(path); err != nil {
		return fmt.Errorf("%w: %w", errStop, err)
	}
	if err := r.disk.syncDir(r.dir); err != nil {
		return fmt.Errorf("%w: %w", errStop, err)
	}
	return nil
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
