package regularfile

import (
	"errors"
	"fmt"
	"io"
)

// MaxSize is the size of the largest file that [Read] accepts, in bytes.
// Policies are far smaller.
const MaxSize = 1 << 20

// Read returns the content of a regular file.
func Read(path string) ([]byte, error) { return ReadAtMost(path, MaxSize) }

// ReadAtMost is Read for files of at most that size.
func ReadAtMost(path string, size int64) ([]byte, error) {
	f, _, err := Open(path)
	switch {
	case errors.Is(err, ErrNotRegular):
		return nil, fmt.Errorf("%s is %w", path, ErrNotRegular)
	case err != nil:
		return nil, err
	}
	defer f.Close()
	return readFrom(f, path, size)
}

// ReadFrom returns the content of r, which its errors call name.
func ReadFrom(r io.Reader, name string) ([]byte, error) { return readFrom(r, name, MaxSize) }

func readFrom(r io.Reader, name string, size int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, size+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case int64(len(data)) > size:
		return nil, fmt.Errorf("%s has more than %d bytes, the most that is read", name, size)
	}
	return data, nil
}
