package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// An output is where a body goes. A regular file is written beside its place and takes it when it is whole, so that it is
// never there by half.
type output struct {
	io.Writer
	file *os.File // nil: standard output, which is not ours to close
	path string   // that file is to take; "": it is written where it is

	rename func(from, to string) error // os.Rename, but for tests
}

// openOutput opens the file, "" or - for standard output, without changing what
// exists. It waits for the reader of a named pipe until ctx ends.
func openOutput(ctx context.Context, path string, stdout io.Writer) (*output, error) {
	if path == "" || path == "-" {
		return &output{Writer: stdout}, nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		target, err := os.Readlink(path)
		if err != nil {
			return beside(path, nil)
		}
		if target, err = ofLink(path, target); err != nil { // to a file that is not there yet
			return nil, err
		}
		return openOutput(ctx, target, stdout)
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory", path)
	}
	f, err := openWithin(ctx, path, os.O_WRONLY) // for a regular file: may it be written?
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return &output{Writer: f, file: f}, nil
	}
	f.Close()
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, err
	}
	return beside(path, info)
}

// ofLink is where the link at path leads, whose target may not exist. The
// target's folder is found by following links: its ".." does not cancel out the
// name of a link before it.
func ofLink(path, target string) (string, error) {
	if !filepath.IsAbs(target) {
		dir, _ := filepath.Split(path)
		target = dir + target
	}
	dir, name := filepath.Split(target)
	dir, err := filepath.EvalSymlinks(dir)
	return filepath.Join(dir, name), err
}

// beside creates a file in path's folder, with the permissions of the file that
// it will replace. If there is such a file and the folder is read-only, the new
// file is in the folder for temporary files.
func beside(path string, replaced fs.FileInfo) (*output, error) {
	name := filepath.Join(filepath.Dir(path), ".awsretry-"+rand.Text()+".part")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil && replaced != nil {
		f, err = os.CreateTemp("", "awsretry-*.part")
	}
	if err != nil {
		return nil, err
	}
	o := &output{Writer: f, file: f, path: path, rename: os.Rename}
	if replaced != nil {
		if err := f.Chmod(replaced.Mode().Perm()); err != nil {
			o.abandon()
			return nil, err
		}
	}
	return o, nil
}

// A leftError says why a file could not be replaced, and where the new content
// is.
type leftError struct {
	err  error
	part string
}

func (e *leftError) Error() string { return fmt.Sprintf("%v; the body is in %s", e.err, e.part) }
func (e *leftError) Unwrap() error { return e.err }

// keep puts what was written in its place.
func (o *output) keep() error {
	if o.file == nil {
		return nil
	}
	err := o.file.Close()
	if o.path == "" {
		return err
	}
	if err != nil {
		os.Remove(o.file.Name())
		return err
	}
	if o.rename(o.file.Name(), o.path) == nil {
		return nil
	}
	if err := overwrite(o.path, o.file.Name()); err != nil {
		return &leftError{err, o.file.Name()}
	}
	os.Remove(o.file.Name())
	return nil
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

// abandon undoes what was written, where that is possible. It must not be called after keep.
func (o *output) abandon() {
	if o.file == nil {
		return
	}
	o.file.Close()
	if o.path != "" {
		os.Remove(o.file.Name())
	}
}
