// Package inplace finds the readers that can be read at offsets behind request bodies.
package inplace

import (
	"io"
	"io/fs"
	"reflect"
)

// Section returns what is left of a body that is an io.ReaderAt with a size and a known offset, nil for any other. length is
// how long the body is said to be; where nothing else tells the offset, a body of that very size is at its start.
func Section(body io.Reader, length int64) *io.SectionReader {
	reader := Unwrap(body)
	at, ok := reader.(io.ReaderAt)
	if !ok {
		return nil
	}
	size, ok := sizeOf(reader)
	if !ok {
		return nil
	}
	var offset int64
	if seeker, ok := reader.(io.Seeker); ok {
		var err error
		if offset, err = seeker.Seek(0, io.SeekCurrent); err != nil {
			return nil
		}
	} else if length != size {
		return nil
	}
	return io.NewSectionReader(at, offset, max(size-offset, 0))
}

func sizeOf(reader io.Reader) (size int64, ok bool) {
	switch sized := reader.(type) {
	case interface{ Size() int64 }:
		return sized.Size(), true
	case interface{ Stat() (fs.FileInfo, error) }:
		info, err := sized.Stat()
		if err != nil || !info.Mode().IsRegular() {
			return 0, false
		}
		return info.Size(), info.Size() > 0 // the files of /proc say 0, whatever they hold
	}
	return 0, false
}

var (
	nopCloser         = reflect.TypeOf(io.NopCloser(nil))
	nopCloserWriterTo = reflect.TypeOf(io.NopCloser(struct {
		io.Reader
		io.WriterTo
	}{}))
)

// Unwrap undoes what http.NewRequest does to a reader that cannot be closed.
func Unwrap(r io.Reader) io.Reader {
	if t := reflect.TypeOf(r); t == nopCloser || t == nopCloserWriterTo {
		if inner, ok := reflect.ValueOf(r).Field(0).Interface().(io.Reader); ok {
			return inner
		}
	}
	return r
}
