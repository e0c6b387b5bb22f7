// Package files opens the files that a user names. It writes files atomically, with
// all of the new content or all of the old, and its calls return when a context
// ends, even if they wait for a pipe or a terminal.
package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// An Output is standard output, a device, a pipe or an open file, which is written
// directly, or a regular file, which Keep replaces.
type Output struct {
	io.Writer
	opened  *os.File // a device, a pipe or an open file; nil: none
	pending pending  // what Keep replaces path with; nil: nothing
	path    string
}

// A pending file has the new content until it replaces the old file.
type pending interface {
	io.Writer
	Name() string
	CloseAtomicallyReplace() error
	Cleanup() error // closes and removes it, unless it has replaced the file
}

// Stdout returns an Output for standard output, or standard error.
func Stdout(stdout io.Writer) *Output { return &Output{Writer: stdout} }

// Create opens the file at path, or returns [Stdout] for "" and -. It does not
// change an existing file. It waits for the reader of a named pipe until ctx ends. A
// file that the process has open, such as /dev/stdout, is written where it is open.
func Create(ctx context.Context, path string, stdout io.Writer) (*Output, error) {
	if path == "" || path == "-" {
		return Stdout(stdout), nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		target, err := os.Readlink(path)
		if err != nil {
			return replace(path, filepath.Dir(path))
		}
		if target, err = linkTarget(path, target); err != nil { // a link to a file that does not exist yet
			return nil, err
		}
		return Create(ctx, target, stdout)
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory", path)
	}
	switch n, known := descriptor(path); {
	case known && n == 1:
		return Stdout(stdout), nil
	case known && n == 2:
		return Stdout(os.Stderr), nil
	case known && info.Mode().IsRegular():
		f := os.NewFile(uintptr(n), path)
		return &Output{Writer: f, opened: f}, nil
	}
	f, err := OpenContext(ctx, path, os.O_WRONLY) // of a regular file, this checks the permission
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return &Output{Writer: f, opened: f}, nil
	}
	f.Close()
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, err
	}
	file, err := replace(path, filepath.Dir(path))
	if err != nil { // the folder may be read-only
		return replace(path, os.TempDir())
	}
	return file, err
}

// descriptor returns the number of the open file that a path leads to by its name:
// the system would open a regular file again, at its beginning.
func descriptor(path string) (n int, known bool) {
	for range 8 { // links
		path, _ = filepath.Abs(path)
		switch path {
		case "/dev/stdout":
			return 1, true
		case "/dev/stderr":
			return 2, true
		}
		for _, folder := range []string{"/dev/fd/", "/proc/self/fd/", fmt.Sprintf("/proc/%d/fd/", os.Getpid())} {
			if number, in := strings.CutPrefix(path, folder); in {
				n, err := strconv.Atoi(number)
				return n, err == nil
			}
		}
		target, err := os.Readlink(path)
		if err != nil {
			return 0, false
		}
		if path, err = linkTarget(path, target); err != nil {
			return 0, false
		}
	}
	return 0, false
}

// linkTarget returns where the link at path leads, whose target may not exist.
// It follows links to find the target's folder: the ".." of the target does not
// cancel out the name of a link before it.
func linkTarget(path, target string) (string, error) {
	if !filepath.IsAbs(target) {
		dir, _ := filepath.Split(path)
		target = dir + target
	}
	dir, name := filepath.Split(target)
	dir, err := filepath.EvalSymlinks(dir)
	return filepath.Join(dir, name), err
}

// replace returns an Output that replaces the one at path. The new content is in
// the folder tempDir until then.
func replace(path, tempDir string) (*Output, error) {
	p, err := newPending(path, tempDir)
	if fault := (*fs.PathError)(nil); errors.As(err, &fault) {
		fault.Path = path // not that of the temporary file
	}
	if err != nil {
		return nil, err
	}
	return &Output{Writer: p, pending: p, path: path}, nil
}

// IsStdout reports whether f is from [Stdout].
func (f *Output) IsStdout() bool { return f.opened == nil && f.pending == nil }

// IsReplaced reports whether Keep replaces a regular file.
func (f *Output) IsReplaced() bool { return f.pending != nil }

// A LeftError reports that a file could not be replaced, and which file has the
// new content.
type LeftError struct {
	Err  error
	Path string
}

func (e *LeftError) Error() string { return fmt.Sprintf("%v; the new content is in %s", e.Err, e.Path) }
func (e *LeftError) Unwrap() error { return e.Err }

// Keep ends f and moves a regular file into place.
func (f *Output) Keep() error {
	switch {
	case f.opened != nil:
		return f.opened.Close()
	case f.pending == nil:
		return nil
	}
	err := f.pending.CloseAtomicallyReplace()
	if err == nil {
		return nil
	}
	if rename := (*os.LinkError)(nil); errors.As(err, &rename) {
		if err = overwrite(f.path, f.pending.Name()); err != nil {
			return &LeftError{err, f.pending.Name()}
		}
	}
	_ = f.pending.Cleanup()
	return err
}

// overwrite copies a file into another that cannot be replaced: it is a mount
// point, as in a container, or its folder is read-only.
func overwrite(path, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Abandon ends f and leaves a regular file as it was. It must not be called
// after Keep.
func (f *Output) Abandon() {
	if f.opened != nil {
		f.opened.Close()
	}
	if f.pending != nil {
		_ = f.pending.Cleanup()
	}
}
