package delivery

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// DirQueue returns a dead-letter queue that is a folder, for [Transport].DeadLetter: each dead letter is one file, which
// [Redrive] sends again. The folder is made with the first letter.
//
// A file has a line of JSON, see [Letter], and behind it the request in wire form: URL, headers and body as they were,
// credentials such as an Authorization header among them, because the request is to be sent again. Files are
// readable for their owner alone (mode 0600, the folder 0700). The body is copied from its reader to the file, not held in memory.
//
// A letter that was taken (the error is nil) survives a crash of the process and of the machine: it is written under another
// name, synced, renamed, and the folder is synced, and so are the folders that had to be made for it. (Where the system or the
// file system cannot sync a folder, that is left out.) Names begin with the time and never collide, so that
// several processes may share a folder.
func DirQueue(dir string) func(context.Context, DeadLetter) error {
	return newDirQueue(dir, osDisk{}).put
}

const (
	letterSuffix = ".letter"
	tempSuffix   = ".tmp" // behind letterSuffix
	nameTime     = "20060102T150405.000000000Z"
)

type dirQueue struct {
	dir  string // clean; "" where none was given
	disk disk

	mu   sync.Mutex // guards the fields below
	last time.Time  // of the letter before
	made bool       // the folder was there, for good, at the letter before
}

func newDirQueue(dir string, disk disk) *dirQueue {
	if dir != "" {
		dir = filepath.Clean(dir) // so that its parent is found although it ends in a slash
	}
	return &dirQueue{dir: dir, disk: disk}
}

// A disk is the folder's changes, in the order in which they have to happen. Tests look at the folder after each.
type disk interface {
	mkdir(path string) error              // for its owner alone; an error where path exists
	create(path string) (diskFile, error) // for its owner alone; an error where path exists
	rename(from, to string) error
	remove(path string) error
	syncDir(dir string) error
}

type diskFile interface {
	io.WriteCloser
	Sync() error
}

func (q *dirQueue) put(ctx context.Context, dead DeadLetter) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if q.dir == "" {
		return fmt.Errorf("delivery: DirQueue: %w", errNoFolder)
	}
	if err := q.makeDir(); err != nil {
		return fmt.Errorf("delivery: DirQueue: %w", unnamed(err))
	}
	now := q.now()
	var random [8]byte
	rand.Read(random[:])
	path := filepath.Join(q.dir, fmt.Sprintf("%s-%x%s", now.Format(nameTime), random, letterSuffix))
	if err := q.write(path, dead, now); err != nil {
		return fmt.Errorf("delivery: DirQueue: %s: %w", path, unnamed(err))
	}
	return nil
}

// makeDir makes the folder where it is missing.
func (q *dirQueue) makeDir() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.made && isDir(q.dir) {
		return nil
	}
	q.made = false
	if err := makeDurable(q.disk, q.dir); err != nil {
		return err
	}
	q.made = true
	return nil
}

// makeDurable makes a folder, and the folders above it that are missing, so that
// a crash of the machine does not take them away. Each is made after the one
// above it was synced. So a crash leaves one folder at most that is not durable,
// the deepest; where that is there at the beginning, it is made durable first.
func makeDurable(d disk, dir string) error {
	parent := filepath.Dir(dir)
	if parent == dir {
		return nil // a root, or the current folder
	}
	if isDir(dir) {
		err := d.syncDir(parent)
		if errors.Is(err, fs.ErrPermission) {
			return nil // who may not look into a folder has hardly made one there
		}
		return err
	}
	if err := makeDurable(d, parent); err != nil {
		return err
	}
	if err := d.mkdir(dir); err != nil && !isDir(dir) { // another process may have been faster
		return err
	}
	return d.syncDir(parent)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// now is later than at the call before, so that letters sort in the order in which they came also where the clock is coarse.
func (q *dirQueue) now() time.Time {
	now := time.Now().UTC().Round(0)
	q.mu.Lock()
	defer q.mu.Unlock()
	if !now.After(q.last) {
		now = q.last.Add(1)
	}
	q.last = now
	return now
}

func (q *dirQueue) write(path string, dead DeadLetter, now time.Time) (err error) {
	temp := path + tempSuffix
	f, err := q.disk.create(temp)
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		f.Close()
		if !renamed {
			q.disk.remove(temp)
		}
	}()
	w := bufio.NewWriterSize(f, 32<<10)
	if err := writeLetter(w, dead, now); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil { // before the rename, which might else reach the disk alone
		return err
	}
	if !canLock { // where an open file can be locked it can be renamed, too, and is kept locked until it is
		f.Close()
	}
	if err := q.disk.rename(temp, path); err != nil {
		return err
	}
	renamed = true
	if err := q.disk.syncDir(q.dir); err != nil {
		return fmt.Errorf("it was written, but may not survive a crash of the machine: %w", err)
	}
	return nil
}

type osDisk struct{}

func (osDisk) mkdir(path string) error { return os.Mkdir(path, 0o700) }

// create locks the file, so that Redrive can tell it from one that a crash left behind.
func (osDisk) create(path string) (diskFile, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	lock(f) // where that fails, Redrive cannot tell either, and lets the file be
	return f, nil
}

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) remove(path string) error { return os.Remove(path) }

// syncDir does nothing where there is no such thing, on a system or a file
// system.
func (osDisk) syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return ignoreUnsupported(d.Sync())
}

// ignoreUnsupported returns nil in place of the errors with which a file system
// says that it cannot sync a folder: EINVAL, and ENOTSUP and the like.
func ignoreUnsupported(err error) error {
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
