// Package regularfile opens the files that a user names, and refuses everything
// else that has a path: opening a named pipe may block, and a device may be
// endless.
package regularfile

import (
	"errors"
	"io/fs"
	"os"
)

// ErrNotRegular is the error of [Open] for a path that is not a regular file's.
var ErrNotRegular = errors.New("not a regular file; it must be one")

// Open opens a regular file for reading. The FileInfo describes what the path
// names; it is nil if there is no such path. The error is a [*fs.PathError].
func Open(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path) // before os.Open, which may block
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, info, &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	file, err := os.Open(path)
	return file, info, err
}
