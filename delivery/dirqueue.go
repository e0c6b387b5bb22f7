package delivery

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// DirQueue returns a dead-letter queue in a folder, for [Transport].DeadLetter:
// each dead letter is one file, which [Redrive] sends again. The first letter
// makes the folder.
//
// A file has a line of JSON, see [Letter], and then the request in wire form:
// URL, headers and body as they were. Credentials such as an Authorization
// header are among them, because the request is to be sent again. Only their
// owner can read the files (mode 0600, the folder 0700). The body is copied
// from its reader to the file, not read into memory.
//
// A letter that was taken, without an error, survives a crash of the process
// and of the machine: it is written under another name, synced and renamed, and
// the folder and those that had to be made for it are synced. (This is left out
// if the system or the file system cannot sync a folder.) Names begin with the
// time and never collide, so that several processes may share a folder.
func DirQueue(dir string) func(context.Context, DeadLetter) error {
	return newDirQueue(dir, osDisk{}).put
}

const (
	letterSuffix = ".letter"
	tempSuffix   = ".tmp" // after letterSuffix
	nameTime     = "20060102T150405.000000000Z"
)

type dirQueue struct {
	dir  string // clean; "" if none was given
	disk disk

	mu   sync.Mutex // guards the fields below
	last time.Time  // of the letter before
	made bool       // the folder was durable at the letter before
}

func newDirQueue(dir string, disk disk) *dirQueue {
	if dir != "" {
		dir = filepath.Clean(dir) // so that filepath.Dir returns its parent also if it ends in a slash
	}
	return &dirQueue{dir: dir, disk: disk}
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

// makeDir makes the folder if it is missing.
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

// now returns a time after that of the call before, so that letters sort in the
// order in which they came even if the clock is coarse.
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
			_ = q.disk.remove(temp)
		}
	}()
	w := bufio.NewWriterSize(f, 32<<10)
	if err := writeLetter(w, dead, now); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil { // otherwise the new name might reach the disk without the bytes
		return err
	}
	if !canLock { // a system that locks open files also renames them; there the file stays locked
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
