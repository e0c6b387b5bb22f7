package awsconfig

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"example.com/awsretry/internal/regularfile"
)

// maxSize limits the memory that a file can take.
const maxSize = 16 << 20

// readFile returns the file's text, or "" if there is no such file or it is the
// null device.
func readFile(path string) (string, error) {
	file, info, err := regularfile.Open(path)
	switch {
	// A daemon's HOME may be /dev/null: then the path leads through a file.
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return "", nil
	case errors.Is(err, regularfile.ErrNotRegular):
		return "", notRegular(path, info)
	case err != nil:
		return "", err
	}
	defer file.Close()

	var text strings.Builder
	text.Grow(int(min(info.Size(), maxSize)))
	n, err := io.Copy(&text, io.LimitReader(file, maxSize+1))
	switch {
	case err != nil:
		return "", err
	case n > maxSize:
		return "", fmt.Errorf("%s is larger than %d bytes, the most that is read of a config or credentials file",
			path, maxSize)
	}
	return text.String(), nil
}

// notRegular returns the error for a path that is not a regular file, or nil for
// the null device.
func notRegular(path string, info fs.FileInfo) error {
	if null, err := os.Stat(os.DevNull); err == nil && os.SameFile(info, null) {
		return nil
	}
	fault := fmt.Errorf("it is %s; a config or credentials file must be a regular file", kindOf(info.Mode()))
	return &fs.PathError{Op: "open", Path: path, Err: fault}
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}
