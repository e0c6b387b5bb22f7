package replay

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func onDisk(t *testing.T, data string) (*Body, *http.Request, *os.File) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "body"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := io.WriteString(f, data); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "PUT", "http://service.example", f)
	if err != nil {
		t.Fatal(err)
	}
	b := new(Body)
	b.Own(req)
	b.Share(0, false)
	out := req.WithContext(t.Context())
	b.Attach(out)
	return b, out, f
}

func isClosed(f *os.File) bool {
	_, err := f.Stat()
	return errors.Is(err, os.ErrClosed)
}

// A file that was cut is an error, not a short body.
func TestFileThatShrinks(t *testing.T) {
	b, out, f := onDisk(t, "hello, world")
	if err := f.Truncate(5); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(out.Body)
	if string(got) != "hello" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read %q, %v", got, err)
	}
	if !errors.Is(b.Err(), io.ErrUnexpectedEOF) {
		t.Errorf("the reader's failure is %v", b.Err())
	}
	b.Release(true)
}

// A file that was written to is not sent again.
func TestFileThatChanges(t *testing.T) {
	b, out, f := onDisk(t, "hello, world")
	if _, err := io.ReadAll(out.Body); err != nil || !b.Replayable() {
		t.Fatalf("%v; can be retried: %v", err, b.Replayable())
	}
	if _, err := f.WriteAt([]byte("J"), 0); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Minute) // whatever the file system's clock ticks in
	if err := os.Chtimes(f.Name(), later, later); err != nil {
		t.Fatal(err)
	}
	if b.Replayable() {
		t.Error("can be retried")
	}
	b.Release(true)
}

// The file is closed once: when the call is over and its last copy is closed,
// or when it has failed. A copy that Base dropped holds nothing up.
func TestFileIsClosedOnce(t *testing.T) {
	for _, failed := range []bool{false, true} {
		b, out, f := onDisk(t, "hello")
		dropped, err := out.GetBody() // as net/http does for a request that it sends again
		if err != nil {
			t.Fatal(err)
		}
		last, err := out.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		out.Body.Close()
		if !failed {
			last.Close()
		}
		if isClosed(f) {
			t.Error("closed while the call goes on")
		}
		b.Release(failed)
		if !isClosed(f) {
			t.Errorf("failed %v: not closed", failed)
		}
		dropped.Close()
		if body, err := out.GetBody(); body != nil || err == nil {
			t.Errorf("GetBody of a closed file: %v, %v", body, err)
		}
	}
	b, out, f := onDisk(t, "hello")
	b.Release(false)
	if isClosed(f) {
		t.Error("closed while Base has it")
	}
	if got, err := io.ReadAll(out.Body); string(got) != "hello" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if out.Body.Close(); !isClosed(f) {
		t.Error("not closed")
	}
}
