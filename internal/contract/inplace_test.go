package contract_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// Every attempt reads a file by its ReadAt, from where the caller left it.
func TestFileIsReadInPlace(t *testing.T) {
	data := httpfake.Text(3 << 20)
	for _, tt := range []struct {
		name   string
		body   func(*os.File) io.Reader
		closed bool
	}{
		{"file", func(f *os.File) io.Reader { return f }, true},
		{"io.NopCloser", func(f *os.File) io.Reader { return io.NopCloser(f) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := fileAt(t, data, 1000)
			sends := 0
			tr := retrying(func(req *http.Request) (*http.Response, error) {
				sends++
				if at, err := file.Seek(0, io.SeekCurrent); err != nil || at != 1000 {
					t.Errorf("at attempt %d the file is at %d, %v", sends, at, err)
				}
				again, err := req.GetBody()
				if err != nil {
					t.Fatal(err)
				}
				if b, err := io.ReadAll(again); err != nil || string(b) != data[1000:] {
					t.Errorf("GetBody gives %d bytes, %v", len(b), err)
				}
				again.Close()
				if got, err := httpfake.Receive(req); err != nil || got != data[1000:] {
					t.Errorf("attempt %d sends %d bytes, %v", sends, len(got), err)
				}
				return httpfake.Response(req, 500, http.NoBody), nil
			})
			resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "PUT", tt.body(file)))
			if err != nil || resp.StatusCode != 500 || sends != 3 {
				t.Errorf("%v, %v after %d attempts", resp, err, sends)
			}
			if closed := errors.Is(file.Close(), os.ErrClosed); closed != tt.closed {
				t.Errorf("closed: %v", closed)
			}
		})
	}
}

// A file whose size does not say how much can be read of it is recorded, like
// any other reader.
func TestFileWithoutASize(t *testing.T) {
	check := func(t *testing.T, f *os.File, want string) {
		var got []string
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			b, err := httpfake.Receive(req)
			got = append(got, b)
			return httpfake.Response(req, 503, http.NoBody), err
		})
		_, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "PUT", f))
		if err != nil || !slices.Equal(got, []string{want, want, want}) {
			t.Errorf("sent %q; %v", got, err)
		}
		if !errors.Is(f.Close(), os.ErrClosed) {
			t.Error("the file is open")
		}
	}
	t.Run("pipe", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		go func() { io.WriteString(w, "from a pipe"); w.Close() }()
		check(t, r, "from a pipe")
	})
	t.Run("proc", func(t *testing.T) { // a regular file of size 0 that has content
		const name = "/proc/self/cmdline"
		want, err := os.ReadFile(name)
		if err != nil || len(want) == 0 {
			t.Skip("no such file: ", err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		check(t, f, string(want))
	})
}

// A file that has become too short is an error, never a short request.
func TestFileThatShrinks(t *testing.T) {
	f := fileAt(t, "hello, world", 0)
	var sent []string
	tr := retrying(func(req *http.Request) (*http.Response, error) {
		got, err := httpfake.Receive(req)
		if sent = append(sent, got); err != nil {
			return nil, err
		}
		if err := os.Truncate(f.Name(), 5); err != nil {
			t.Error(err)
		}
		return httpfake.Response(req, 503, http.NoBody), nil
	})
	resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "PUT", f))
	if err != nil || contract.StopOf(resp, err) != awsretry.StopBody || len(sent) != 1 {
		t.Errorf("%v, %v; sent %q", resp, err, sent)
	}
}

var errDisk = errors.New("disk on fire")

// An unreadable body has a size, but its ReadAt fails.
type unreadable struct{ *bytes.Reader }

func (unreadable) ReadAt([]byte, int64) (int, error) { return 0, errDisk }
func (unreadable) Close() error                      { return nil }

func TestReadErrorInPlaceEndsTheCall(t *testing.T) {
	tr := retrying(func(req *http.Request) (*http.Response, error) {
		_, err := httpfake.Receive(req)
		return nil, err
	})
	req := httpfake.Request(t, t.Context(), "PUT", nil)
	req.Body, req.ContentLength = unreadable{bytes.NewReader(make([]byte, 10))}, 10
	_, err := tr.RoundTrip(req)
	var e *awsretry.Error
	if !errors.Is(err, errDisk) || !errors.As(err, &e) || e.Attempts != 1 || e.Stop != awsretry.StopPermanent {
		t.Errorf("got %v", err)
	}
}
