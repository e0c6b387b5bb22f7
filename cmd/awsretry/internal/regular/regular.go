// Package regular reads the small files that a user names. Whatever else has a
// name in the file system may be endless, or block when it is opened, and is
// refused.
package regular

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// MaxSize is the size of the largest file that is read, in bytes. It is far
// above what a policy or a scenario needs.
const MaxSize = 1 << 20

// ErrNotRegular is in the error of [Read] for what is not a regular file.
var ErrNotRegular = errors.New("not a regular file; it must be one")

// Read returns the content of a regular file.
func Read(path string) ([]byte, error) {
	info, err := os.Stat(path) // first, because opening a named pipe may block
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is %w", path, ErrNotRegular)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadFrom(f, path)
}

// ReadFrom returns what r has, which its errors call name.
func ReadFrom(r io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(data) > MaxSize:
		return nil, fmt.Errorf("%s has more than %d bytes, the most that is read", name, MaxSize)
	}
	return data, nil
}
