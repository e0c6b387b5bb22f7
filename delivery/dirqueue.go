package delivery

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
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
// name, synced, renamed, and the folder is synced. Names begin with the time and never collide, so that
// several processes may share a folder.
func DirQueue(dir string) func(context.Context, DeadLetter) error {
	q := &dirQueue{dir: dir, disk: osDisk{}}
	return q.put
}

const (
	letterSuffix = ".letter"
	tempSuffix   = ".tmp" // behind letterSuffix
	nameTime     = "20060102T150405.000000000Z"
)

type dirQueue struct {
	dir  string
	disk disk

	mu   sync.Mutex
	last time.Time // of the letter before, guarded by mu
}

// A disk is the folder's changes, in the order in which they have to happen. Tests look at the folder after each.
type disk interface {
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
		return errors.New("delivery: DirQueue: the folder is \"\"; it must be a path")
	}
	if err := q.makeDir(); err != nil {
		return fmt.Errorf("delivery: DirQueue: %w", err)
	}
	now := q.now()
	var random [8]byte
	rand.Read(random[:])
	path := filepath.Join(q.dir, fmt.Sprintf("%s-%x%s", now.Format(nameTime), random, letterSuffix))
	if err := q.write(path, dead, now); err != nil {
		return fmt.Errorf("delivery: DirQueue: %s: %w", path, err)
	}
	return nil
}

func (q *dirQueue) makeDir() error {
	if _, err := os.Stat(q.dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(q.dir, 0o700); err != nil {
		return err
	}
	return q.disk.syncDir(filepath.Dir(q.dir))
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
	return q.disk.syncDir(q.dir)
}

type osDisk struct{}

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

func (osDisk) syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // has no such thing
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
