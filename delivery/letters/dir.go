package letters

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// A Dir is a dead-letter queue in a folder: each letter is a file. The zero
// value is not ready to use: set Path. A Dir must not be copied after its first
// use.
//
// A Dir is safe for concurrent use. Several Dirs, in one process or in many,
// may share a folder: names of files never collide, and a file lock keeps two
// of them from sending the same letter at the same time. The lock is an
// advisory one (flock) on the letter's own file, and ends with its process.
// There are no locks on Windows, Solaris and some network file systems: there,
// run one Redrive at a time.
type Dir struct {
	Path string // of the folder, which the first Put creates; must not be ""

	mu   sync.Mutex // guards the fields below
	last time.Time  // of the previous letter
	made bool       // the folder was durable at the previous letter
}

const (
	letterSuffix = ".letter"
	tempSuffix   = ".tmp" // after letterSuffix
	nameTime     = "20060102T150405.000000000Z"
)

// errNoPath is the error of a Dir without a folder, as from a variable that is
// not set.
var errNoPath = errors.New(`letters: Dir.Path is ""; it must be the path of a folder`)

// Put writes a dead letter to its own file. It is made for the DeadLetter
// field of a delivery.Transport.
//
// A file has a line of JSON, see [Letter], and then the request in wire form:
// URL, headers and body as they were. Credentials such as an Authorization
// header are included, because Redrive sends the request again. Only the owner
// can read the files (mode 0600, the folder 0700). The body is streamed to the
// file, not read into memory.
//
// If Put returns nil, the letter survives a crash of the process and of the
// machine: the file is written under a temporary name, synced and renamed, and
// the folder and the parents that Put created are synced. (Folders are not
// synced where the system or the file system cannot do it.) Names sort by time.
//
// An error says why the request cannot be written and read back unchanged, or
// is of the file system, of the request's body, or the cause of ctx, which is
// read only before Put begins. After an error no letter is in the folder,
// unless the error says that it may not survive a crash of the machine.
func (d *Dir) Put(ctx context.Context, dead DeadLetter) error { return d.put(ctx, osDisk{}, dead) }

func (d *Dir) put(ctx context.Context, disk disk, dead DeadLetter) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	dir, err := d.clean()
	if err != nil {
		return err
	}
	if err := d.makeDir(disk, dir); err != nil {
		return fmt.Errorf("letters: Put: %w", err)
	}
	now := d.now()
	var random [8]byte
	rand.Read(random[:])
	path := filepath.Join(dir, fmt.Sprintf("%s-%x%s", now.Format(nameTime), random, letterSuffix))
	if err := writeFile(disk, path, dead, now); err != nil {
		return fmt.Errorf("letters: Put: %s: %w", path, err)
	}
	return nil
}

// clean returns the path of the folder. filepath.Dir returns its parent even if
// Path ends in a slash.
func (d *Dir) clean() (string, error) {
	if d.Path == "" {
		return "", errNoPath
	}
	return filepath.Clean(d.Path), nil
}

// makeDir creates the folder if it is missing.
func (d *Dir) makeDir(disk disk, dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made && isDir(dir) {
		return nil
	}
	d.made = false
	if err := makeDurable(disk, dir); err != nil {
		return err
	}
	d.made = true
	return nil
}

// now returns the time, later than the previous call's, so that letters sort in
// the order in which they came even if the clock is coarse.
func (d *Dir) now() time.Time {
	now := time.Now().UTC().Round(0)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !now.After(d.last) {
		now = d.last.Add(1)
	}
	d.last = now
	return now
}

// writeFile writes a letter's file: under a temporary name, which is then
// renamed.
func writeFile(disk disk, path string, dead DeadLetter, now time.Time) (err error) {
	temp := path + tempSuffix
	f, err := disk.create(temp)
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		f.Close()
		if !renamed {
			_ = disk.remove(temp)
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
	if err := disk.rename(temp, path); err != nil {
		return err
	}
	renamed = true
	if err := disk.syncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("it was written, but may not survive a crash of the machine: %w", err)
	}
	return nil
}
