package replay

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
)

var errGone = errors.New("gone")

// A rewound is a body whose GetBody rewinds it. Its Reads take a moment.
type rewound struct {
	*strings.Reader
	moment time.Duration
	log    []string
	fails  error // of GetBody
}

func (r *rewound) Read(p []byte) (int, error) {
	r.log = append(r.log, "read")
	time.Sleep(r.moment)
	r.log = append(r.log, "has read")
	return r.Reader.Read(p)
}

func (r *rewound) Close() error {
	r.log = append(r.log, "close")
	return nil
}

func (r *rewound) getBody() (io.ReadCloser, error) {
	r.log = append(r.log, "get")
	if r.fails != nil {
		return nil, r.fails
	}
	_, err := r.Seek(0, io.SeekStart)
	return r, err
}

// rewinding is shared for a rewound, of which nothing is kept.
func rewinding(t *testing.T, moment time.Duration) (*rewound, *Body, *http.Request) {
	t.Helper()
	r := &rewound{Reader: strings.NewReader("hello, world"), moment: moment}
	req := httpfake.Request(t, t.Context(), "PUT", r)
	req.GetBody, req.ContentLength = func() (io.ReadCloser, error) { return r.getBody() }, r.Size()
	b, out := shared(req, 0, false)
	return r, b, out
}

func (r *rewound) wantLog(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(r.log, want) {
		t.Errorf("got %q, want %q", r.log, want)
	}
	r.log = nil
}

// A retry, and a Base that resends the request, call GetBody after the Read in
// progress has returned and the reader is closed.
func TestGetBodyWaits(t *testing.T) {
	for _, byBase := range []bool{false, true} {
		for _, closes := range []bool{false, true} { // Base closes its copy during the Read
			synctest.Test(t, func(t *testing.T) {
				r, b, out := rewinding(t, time.Second/2)
				go out.Body.Read(make([]byte, 5))
				synctest.Wait()
				if closes {
					out.Body.Close()
				}
				var again io.ReadCloser
				var err error
				if !byBase {
					again = retry(t, b).Body
				} else if again, err = out.GetBody(); err != nil {
					t.Fatal(err)
				}
				r.wantLog(t, "read", "has read", "close", "get")
				wantNothing(t, out.Body, nil)
				out.Body.Close()
				wantRest(t, again, "hello, world")
				again.Close()
				b.Release(false)
				// One Read ends where the first attempt stopped reading, to compare.
				r.wantLog(t, "read", "has read", "read", "has read", "read", "has read", "close")
			})
		}
	}
}

// If the Read takes too long, the body is not sent again, and the Read continues.
func TestGetBodyIsNotCalledDuringARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b, out := rewinding(t, time.Minute)
		got := make(chan string)
		go func() {
			all, _ := io.ReadAll(out.Body)
			got <- string(all)
		}()
		synctest.Wait()
		start := time.Now()
		if body, err := out.GetBody(); body != nil || err != ErrBusy || time.Since(start) != readWait {
			t.Errorf("%v, %v after %v", body, err, time.Since(start))
		}
		if waited, ok := b.Freeze(t.Context(), time.Second); ok || waited != time.Second {
			t.Errorf("frozen: %v after %v", ok, waited)
		}
		b.Release(false)
		if all := <-got; all != "hello, world" {
			t.Errorf("sent %q", all)
		}
		out.Body.Close()
		r.wantLog(t, "read", "has read", "read", "has read", "close")
	})
}

// A GetBody that fails, or returns nothing, ends the call. The previous reader is
// closed once.
func TestGetBodyFails(t *testing.T) {
	for _, byBase := range []bool{false, true} {
		r, b, out := rewinding(t, 0)
		r.fails = errGone
		read(t, out.Body, 2)
		if byBase {
			if body, err := out.GetBody(); body != nil || err != errGone {
				t.Errorf("%v, %v", body, err)
			}
		} else if _, ok := b.Freeze(t.Context(), time.Second); ok || !b.Copied() {
			t.Error("the body can be sent again")
		}
		if b.Replayable() || b.Err() != errGone {
			t.Errorf("replayable: %v, %v", b.Replayable(), b.Err())
		}
		out.Body.Close()
		b.Release(true)
		r.wantLog(t, "read", "has read", "close", "get")
	}
	_, b, out := rewinding(t, 0)
	read(t, out.Body, 2)
	b.stream.again = func() (io.ReadCloser, error) { return nil, nil }
	if body, err := out.GetBody(); body != nil || err != errNoBody {
		t.Errorf("%v, %v", body, err)
	}
}

// An error of a reader does not end the call, because the next reader may work. A
// panic of GetBody leaves nothing locked.
func TestReaderOfGetBodyFails(t *testing.T) {
	r, b, out := rewinding(t, 0)
	b.stream.ReadCloser = io.NopCloser(httpfake.ReadFunc(func([]byte) (int, error) { return 0, errGone }))
	if wantNothing(t, out.Body, errGone); b.Err() != nil {
		t.Error(b.Err())
	}
	again := retry(t, b).Body
	if read(t, again, 3); b.Whole() != nil {
		t.Error("what was not kept is whole")
	}
	b.stream.again = func() (io.ReadCloser, error) { panic("GetBody") }
	func() {
		defer func() { _ = recover() }()
		b.Freeze(t.Context(), time.Second)
	}()
	b.Release(true)
	r.wantLog(t, "get", "read", "has read", "close")
}

// A body from GetBody may hang while it is compared with what was kept.
func TestGetBodyHangsAfterCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		opened := httpfake.NewBody(httpfake.ReadFunc(func([]byte) (int, error) { <-ended; return 0, io.EOF }))
		req := httpfake.Request(t, t.Context(), "PUT", httpfake.NewBody(strings.NewReader("hello, world")))
		req.GetBody, req.ContentLength = func() (io.ReadCloser, error) { return closing{opened, ended}, nil }, 12
		b, out := shared(req, 5, false)
		wantRest(t, out.Body, "hello, world")
		out.Body.Close()
		if _, ok := b.Freeze(t.Context(), time.Second); ok {
			t.Error("frozen")
		}
		b.Release(true)
		time.Sleep(hangTime)
		synctest.Wait()
		if opened.Closes() != 1 {
			t.Errorf("closed %d times, want once", opened.Closes())
		}
		select {
		case <-ended:
		default:
			close(ended)
		}
	})
}

// A closing is a body whose Close ends its Reads.
type closing struct {
	*httpfake.Body
	ended chan struct{}
}

func (c closing) Close() error {
	close(c.ended)
	return c.Body.Close()
}
