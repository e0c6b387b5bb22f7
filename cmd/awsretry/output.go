package main

import (
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
}

// openOutput opens the file, "" or - for standard output. It changes nothing that is there yet.
func openOutput(path string, stdout io.Writer) (*output, error) {
	if path == "" || path == "-" {
		return &output{Writer: stdout}, nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return besides(path, nil)
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory", path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0) // for a regular file: may it be written?
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
	return besides(path, info)
}

// besides opens a new file in path's folder, like the one that it replaces.
func besides(path string, replaced fs.FileInfo) (*output, error) {
	name := filepath.Join(filepath.Dir(path), ".awsretry-"+rand.Text()+".part")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	o := &output{Writer: f, file: f, path: path}
	if replaced != nil {
		if err := f.Chmod(replaced.Mode().Perm()); err != nil {
			o.abandon()
			return nil, err
		}
	}
	return o, nil
}

// keep puts what was written in its place.
func (o *output) keep() error {
	if o.file == nil {
		return nil
	}
	err := o.file.Close()
	if o.path == "" {
		return err
	}
	if err == nil {
		err = os.Rename(o.file.Name(), o.path)
	}
	if err != nil {
		os.Remove(o.file.Name())
	}
	return err
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
