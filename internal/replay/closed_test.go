package replay

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"example.com/awsretry/internal/httpfake"
)

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

// Base may go on reading after the call has failed. A reader that was mapped
// into memory must not be read then.
func TestFileIsNotReadAfterClose(t *testing.T) {
	m := &mapped{Reader: strings.NewReader("hello, world")}
	req := httpfake.Request(t, t.Context(), "PUT", m)
	var b Body
	b.Own(req)
	b.Share(0, false)
	out := req.WithContext(t.Context())
	b.Attach(out)
	b.Release(true)
	if n, err := out.Body.Read(make([]byte, 5)); n != 0 || err == nil {
		t.Errorf("Read returns %d, %v", n, err)
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

// A body that was read to its end stays at its end when the call is over.
func TestEndOfAFileLasts(t *testing.T) {
	m := &mapped{Reader: strings.NewReader("hello, world")}
	var b Body
	b.Own(httpfake.Request(t, t.Context(), "PUT", m))
	b.Share(0, false)
	out := b.req.WithContext(t.Context())
	b.Attach(out)
	if _, err := io.ReadAll(out.Body); err != nil {
		t.Fatal(err)
	}
	b.Release(false)
	if n, err := out.Body.Read(make([]byte, 1)); n != 0 || err != io.EOF || m.closes != 1 {
		t.Errorf("Read returns %d, %v; closed %d times", n, err, m.closes)
	}
}

// A body of which too much was sent is not kept, also if it ended.
func TestGetBodyThatIsNotKept(t *testing.T) {
	source := iotest.DataErrReader(strings.NewReader("hello, world"))
	req := httpfake.Request(t, t.Context(), "PUT", httpfake.NewBody(source))
	var b Body
	b.Own(req)
	b.Share(4, false)
	out := req.WithContext(t.Context())
	b.Attach(out)
	if _, err := io.ReadAll(out.Body); err != nil {
		t.Fatal(err)
	}
	if _, err := out.GetBody(); err != ErrNotKept {
		t.Errorf("GetBody returns %v", err)
	}
	b.Release(false)
}
