package replay

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"sync/atomic"
	"time"
)

// A file is a body that attempts read in place, with ReadAt.
type file struct {
	source
	rest     *io.SectionReader // from the caller's offset to the end
	stat     func() (fs.FileInfo, error)
	modified time.Time
	failure  atomic.Pointer[error] // of a Read
}

// newFile returns the file that is the body of req, or nil if the body is not an
// io.ReaderAt with a known size and offset.
func newFile(req *http.Request) *file {
	rest := sectionOf(req.Body, req.ContentLength)
	if rest == nil {
		return nil
	}
	f := &file{source: source{ReadCloser: req.Body}, rest: rest}
	if s, ok := unwrap(req.Body).(interface{ Stat() (fs.FileInfo, error) }); ok {
		if info, err := s.Stat(); err == nil {
			f.stat, f.modified = s.Stat, info.ModTime()
		}
	}
	return f
}

// errModified is why a file cannot be sent again.
var errModified = errors.New("the request body cannot be sent again: the file was modified")

// unchanged reports whether the modification time is that of the first attempt.
func (f *file) unchanged() bool {
	if f.stat == nil {
		return true
	}
	info, err := f.stat()
	return err == nil && info.ModTime().Equal(f.modified)
}

func (f *file) err() error {
	if err := f.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// section returns a view of the whole file that belongs to no attempt.
func (f *file) section() *section {
	return &section{SectionReader: io.NewSectionReader(f.rest, 0, f.rest.Size()), file: f}
}

func (f *file) open() *section {
	s := f.section()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current = s
	return s
}

// reopen is the GetBody of an attempt's request. It fails if the caller's reader
// is closed.
func (f *file) reopen() (io.ReadCloser, error) {
	f.mu.Lock()
	closed := f.closed
	f.mu.Unlock()
	if closed {
		return nil, fs.ErrClosed
	}
	return f.open(), nil
}

func (f *file) release(failed bool) {
	f.mu.Lock()
	f.endCall()
	s, _ := f.current.(*section)
	var toClose io.Closer
	if failed || s == nil || s.closed || s.ended {
		toClose = f.claimClose()
	}
	f.mu.Unlock()
	_ = closeNow(toClose)
}

// beginRead returns an error if the caller's reader is closed or will be.
func (f *file) beginRead() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	f.enter()
	return nil
}

// endRead closes the caller's reader if claimClose left that to this Read.
func (f *file) endRead() {
	f.mu.Lock()
	toClose := f.leave()
	f.mu.Unlock()
	_ = closeNow(toClose)
}

// A section is the copy of a file for one attempt.
type section struct {
	*io.SectionReader
	file *file

	// The fields below are guarded by file.mu.
	closed bool
	ended  bool // it was read to its end
}

func (s *section) Read(p []byte) (int, error) {
	if err := s.file.beginRead(); err != nil {
		if s.at() >= s.Size() {
			return 0, io.EOF
		}
		return 0, err
	}
	defer s.file.endRead()
	n, err := s.SectionReader.Read(p)
	if err != nil {
		err = s.note(s.at(), err)
		_ = closeNow(s.mark(&s.ended))
	}
	return n, err
}

// at returns the offset of the next Read.
func (s *section) at() int64 {
	at, _ := s.Seek(0, io.SeekCurrent)
	return at
}

// mark sets s.ended or s.closed. It returns what must be closed, or nil.
func (s *section) mark(flag *bool) (toClose io.Closer) {
	s.file.mu.Lock()
	defer s.file.mu.Unlock()
	*flag = true
	if s.file.over && s.file.current == any(s) {
		return s.file.claimClose()
	}
	return nil
}

func (s *section) ReadAt(p []byte, off int64) (int, error) {
	if err := s.file.beginRead(); err != nil {
		return 0, err
	}
	defer s.file.endRead()
	n, err := s.SectionReader.ReadAt(p, off)
	if err != nil {
		err = s.note(off+int64(n), err)
	}
	return n, err
}

// note records an error of the caller's reader, unless the reader is closed. An
// EOF before the size is an error: the file was truncated.
func (s *section) note(at int64, err error) error {
	if err == io.EOF {
		if at >= s.Size() {
			return err
		}
		err = fmt.Errorf("awsretry: the request body ends after %d of its %d bytes: %w",
			at, s.Size(), io.ErrUnexpectedEOF)
	}
	s.file.mu.Lock()
	defer s.file.mu.Unlock()
	if !s.closed && !s.file.closed {
		s.file.failure.CompareAndSwap(nil, &err)
	}
	return err
}

// Close also closes the caller's reader if the call is over and s is the copy
// of the last attempt. If the caller's reader is being read, it is closed after
// that Read, unless that hangs.
func (s *section) Close() error { return closeNow(s.mark(&s.closed)) }
