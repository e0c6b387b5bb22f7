package replay

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"example.com/awsretry/internal/httpfake"
)

// onDisk returns a file with the data.
func onDisk(t *testing.T, data string) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "body"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.WriteAt([]byte(data), 0); err != nil {
		t.Fatal(err)
	}
	return f
}

// sharedFile is shared for a file.
func sharedFile(t *testing.T, data string) (*Body, *http.Request, *os.File) {
	t.Helper()
	f := onDisk(t, data)
	b, out := shared(httpfake.Request(t, t.Context(), "PUT", f), 0, false)
	return b, out, f
}

func isClosed(f *os.File) bool {
	_, err := f.Stat()
	return errors.Is(err, os.ErrClosed)
}

// A sized has a size and ReadAt, but no Seek.
type sized struct {
	io.Reader
	io.ReaderAt
	size int64
}

func (s sized) Size() int64 { return s.size }

// A counted counts what is read of a file, and an upper changes it.
type (
	counted struct {
		*os.File
		n int
	}
	upper struct{ *os.File }
	named struct{ *os.File }
)

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.File.Read(p)
	c.n += n
	return n, err
}

func (u upper) Read(p []byte) (int, error) {
	n, err := u.File.Read(p)
	copy(p, bytes.ToUpper(p[:n]))
	return n, err
}

func (named) Close() error { return nil }

// A procFile has the size 0 in its directory entry, like the files in /proc.
type procFile struct{ *strings.Reader }

func (procFile) Size(int)                   {} // hides that of the strings.Reader
func (procFile) Stat() (fs.FileInfo, error) { return emptyFile{}, nil }

type emptyFile struct{ fs.FileInfo }

func (emptyFile) Size() int64       { return 0 }
func (emptyFile) Mode() fs.FileMode { return 0o444 }

func TestSection(t *testing.T) {
	const data = "0123456789"
	file := onDisk(t, data)
	file.Seek(4, io.SeekStart)
	folder, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	past := strings.NewReader(data)
	past.Seek(20, io.SeekStart)
	unseekable := sized{strings.NewReader(data), strings.NewReader(data), 10}
	for _, tt := range []struct {
		name   string
		body   io.Reader
		length int64
		want   string
		none   bool
	}{
		{name: "strings.Reader", body: strings.NewReader(data), length: 10, want: data},
		{name: "in a NopCloser", body: io.NopCloser(bytes.NewReader([]byte(data))), length: 10, want: data},
		{name: "file from its offset", body: file, length: -1, want: "456789"},
		{name: "file with a Close of its own", body: named{file}, length: -1, want: "456789"},
		{name: "the same, by a pointer", body: &named{file}, length: -1, want: "456789"},
		{name: "file with a Read of its own", body: &counted{File: file}, length: 6, none: true},
		{name: "the same, by value", body: upper{file}, length: 6, none: true},
		{name: "the same, by a pointer to it", body: &upper{file}, length: 6, none: true},
		{name: "offset after the end", body: past, length: -1, want: ""},
		{name: "no Seek, as long as its size", body: unseekable, length: 10, want: data},
		{name: "no Seek, shorter", body: unseekable, length: 6, none: true},
		{name: "no Seek, unknown length", body: unseekable, length: -1, none: true},
		{name: "no size", body: struct {
			io.ReaderAt
			io.Reader
		}{past, past}, length: 10, none: true},
		{name: "no ReadAt", body: bytes.NewBufferString(data), length: 10, none: true},
		{name: "wrapped", body: struct{ io.Reader }{strings.NewReader(data)}, length: 10, none: true},
		{name: "folder", body: folder, length: 10, none: true},
		{name: "size 0 on disk", body: procFile{strings.NewReader(data)}, length: -1, none: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			switch section := sectionOf(tt.body, tt.length); {
			case (section == nil) != tt.none:
				t.Errorf("a section: %v", section != nil)
			case section != nil:
				wantRest(t, section, tt.want)
			}
		})
	}
}

// A truncated file is an error, not a short body.
func TestFileThatShrinks(t *testing.T) {
	b, out, f := sharedFile(t, "hello, world")
	if err := f.Truncate(5); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(out.Body)
	if string(got) != "hello" || !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(b.Err(), io.ErrUnexpectedEOF) {
		t.Errorf("read %q, %v; the reader's failure is %v", got, err, b.Err())
	}
	b.Release(true)
}

// A file that was modified is not sent again.
func TestFileThatChanges(t *testing.T) {
	b, out, f := sharedFile(t, "hello, world")
	if wantRest(t, out.Body, "hello, world"); !b.Replayable() {
		t.Error("cannot be retried")
	}
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(f.Name(), later, later); err != nil {
		t.Fatal(err)
	}
	if b.Replayable() {
		t.Error("can be retried")
	}
	b.Release(true)
}

// A mapped is a body that is read in place, and must not be read after Close.
type mapped struct {
	*strings.Reader
	closes, late int
}

func (m *mapped) Close() error { m.closes++; return nil }

func (m *mapped) ReadAt(p []byte, off int64) (int, error) {
	if m.closes > 0 {
		m.late++
	}
	return m.Reader.ReadAt(p, off)
}

// Base may continue to read after the call. It must not read a closed reader of
// mapped memory then, and a body that was read to its end stays at its end.
func TestFileIsNotReadAfterClose(t *testing.T) {
	for _, whole := range []bool{false, true} {
		m := &mapped{Reader: strings.NewReader("hello, world")}
		b, out := shared(httpfake.Request(t, t.Context(), "PUT", m), 0, false)
		if whole {
			wantRest(t, out.Body, "hello, world")
		}
		if b.Release(!whole); whole {
			wantRest(t, out.Body, "")
		} else {
			wantNothing(t, out.Body, nil)
		}
		if n, err := out.Body.(io.ReaderAt).ReadAt(make([]byte, 5), 0); n != 0 || err == nil {
			t.Errorf("ReadAt returns %d, %v", n, err)
		}
		if _, err := out.GetBody(); err == nil {
			t.Error("GetBody opens it again")
		}
		if m.closes != 1 || m.late > 0 {
			t.Errorf("closed %d times, read %d times after that", m.closes, m.late)
		}
	}
}

// A reader that a Memory opens does not depend on later Reads of the original, nor
// on other readers that it opened.
func TestMemory(t *testing.T) {
	const data = "0123456789"
	buffer, data1, text := bytes.NewBufferString(data), bytes.NewReader([]byte(data)), strings.NewReader(data)
	for _, r := range []io.Reader{buffer, data1, text, bytes.NewReader(nil)} {
		io.CopyN(io.Discard, r, 4)
		want := data[4:]
		if r.(interface{ Len() int }).Len() == 0 {
			want = ""
		}
		var m, bare Memory
		if !InMemory(r) || m.known() || !bare.Remember(r) || !m.Remember(io.NopCloser(r)) || !m.known() {
			t.Fatalf("%T is not taken as in memory", r)
		}
		io.CopyN(io.Discard, r, 3)
		first, _ := m.reopen()
		io.CopyN(io.Discard, first, 2)
		io.Copy(io.Discard, r)
		for _, again := range []io.Reader{m.open(), m.open(), bare.open()} {
			wantRest(t, again, want)
		}
	}
	for _, body := range []io.Reader{
		nil, http.NoBody, struct{ io.Reader }{text}, iotest.HalfReader(text), io.NopCloser(io.LimitReader(text, 1)),
	} {
		if m := (Memory{}); m.Remember(body) || m.known() {
			t.Errorf("%T is taken as in memory", body)
		}
	}
}

// InMemory does not race with a Read.
func TestInMemoryDuringARead(t *testing.T) {
	r := strings.NewReader("body")
	read := make(chan error)
	go func() {
		_, err := r.ReadByte()
		read <- err
	}()
	if !InMemory(io.NopCloser(r)) {
		t.Error("a strings.Reader is not in memory")
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
}
