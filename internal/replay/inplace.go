package replay

import (
	"io"
	"io/fs"
	"reflect"
)

// sectionOf returns the unread part of a body that is an io.ReaderAt with a known
// size and offset. For any other body it returns nil. length is the declared length
// of the body. A body that is not an io.Seeker is assumed to be at its start if
// length equals its size.
func sectionOf(body io.Reader, length int64) *io.SectionReader {
	reader := unwrap(body)
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
		return info.Size(), info.Size() > 0 // files of /proc have size 0 and content
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

// unwrap returns the reader inside an io.NopCloser, which http.NewRequest wraps
// around a reader without Close. It returns any other reader unchanged.
func unwrap(r io.Reader) io.Reader {
	if t := reflect.TypeOf(r); t == nopCloser || t == nopCloserWriterTo {
		if inner, ok := reflect.ValueOf(r).Field(0).Interface().(io.Reader); ok {
			return inner
		}
	}
	return r
}
