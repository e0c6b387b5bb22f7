package regularfile

import (
	"errors"
	"fmt"
	"io"
)

// MaxSize is the size of the largest file that [Read] accepts, in bytes.
// Policies and scenarios are far smaller.
const MaxSize = 1 << 20

// Read returns the content of a regular file.
func Read(path string) ([]byte, error) {
	f, _, err := Open(path)
	switch {
	case errors.Is(err, ErrNotRegular):
		return nil, fmt.Errorf("%s is %w", path, ErrNotRegular)
	case err != nil:
		return nil, err
	}
	defer f.Close()
	return ReadFrom(f, path)
}

// ReadFrom returns the content of r, which its errors call name.
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
