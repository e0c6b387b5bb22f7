package replay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A rewound is a body whose GetBody rewinds it. Its Reads take a moment.
type rewound struct {
	*strings.Reader
	moment time.Duration
	log    []string
	fails  error // of GetBody
}

func newRewound(moment time.Duration) *rewound {
	return &rewound{Reader: strings.NewReader("hello, world"), moment: moment}
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

// sending returns a Body of r and the request of its first attempt.
func (r *rewound) sending(t *testing.T) (*Body, *http.Request) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "PUT", "http://service.example", r)
	if err != nil {
		t.Fatal(err)
	}
	req.GetBody = r.getBody
	b := new(Body)
	b.Own(req)
	b.Share(0, false)
	out := req.WithContext(t.Context())
	b.Attach(out)
	return b, out
}

func (r *rewound) wantLog(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(r.log, want) {
		t.Errorf("got %q, want %q", r.log, want)
	}
	r.log = nil
}

// GetBody is called when the Read in progress has returned and the reader is
// closed, by a retry and by a Base that sends the request again.
func TestGetBodyWaits(t *testing.T) {
	for _, byBase := range []bool{false, true} {
		for _, closes := range []bool{false, true} { // Base closes its copy during the Read
			synctest.Test(t, func(t *testing.T) {
				r := newRewound(time.Second / 2)
				b, out := r.sending(t)
				go out.Body.Read(make([]byte, 5))
				synctest.Wait()
				if closes {
					out.Body.Close()
				}
				var again *http.Request
				if byBase {
					body, err := out.GetBody()
					if err != nil {
						t.Fatal(err)
					}
					again = &http.Request{Body: body}
				} else {
					again = retry(t, b)
				}
				r.wantLog(t, "read", "has read", "close", "get")
				if n, err := out.Body.Read(make([]byte, 1)); n != 0 || err == nil {
					t.Errorf("the copy before reads on: %d, %v", n, err)
				}
				out.Body.Close()
				if got, err := io.ReadAll(again.Body); string(got) != "hello, world" || err != nil {
					t.Errorf("read %q, %v", got, err)
				}
				again.Body.Close()
				b.Release(false)
				r.wantLog(t, "read", "has read", "read", "has read", "close")
			})
		}
	}
}

// If the Read takes too long, the body is not sent again, and read on.
func TestGetBodyIsNotCalledDuringARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRewound(time.Minute)
		b, out := r.sending(t)
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

// A GetBody that fails, or returns nothing, ends the call. The reader before is
// closed once.
func TestGetBodyFails(t *testing.T) {
	gone := errors.New("gone")
	for _, byBase := range []bool{false, true} {
		r := newRewound(0)
		r.fails = gone
		b, out := r.sending(t)
		read(t, out.Body, 2)
		if byBase {
			if body, err := out.GetBody(); body != nil || err != gone {
				t.Errorf("%v, %v", body, err)
			}
		} else if _, ok := b.Freeze(t.Context(), time.Second); ok || !b.Copied() {
			t.Error("the body can be sent again")
		}
		if b.Replayable() || b.Err() != gone {
			t.Errorf("replayable: %v, %v", b.Replayable(), b.Err())
		}
		out.Body.Close()
		b.Release(true)
		r.wantLog(t, "read", "has read", "close", "get")
	}
	r := newRewound(0)
	b, out := r.sending(t)
	b.stream.again = func() (io.ReadCloser, error) { return nil, nil }
	if body, err := out.GetBody(); body != nil || err != errNoBody {
		t.Errorf("%v, %v", body, err)
	}
}

// An error of a reader does not end the call: the next one may be better. Nor
// does a panic of GetBody leave anything locked.
func TestReaderOfGetBodyFails(t *testing.T) {
	r := newRewound(0)
	b, out := r.sending(t)
	b.stream.ReadCloser = io.NopCloser(readFunc(func([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }))
	if _, err := out.Body.Read(make([]byte, 1)); err != io.ErrUnexpectedEOF || b.Err() != nil {
		t.Errorf("%v, %v", err, b.Err())
	}
	if got, err := io.ReadAll(retry(t, b).Body); string(got) != "hello, world" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	b.stream.again = func() (io.ReadCloser, error) { panic("GetBody") }
	func() {
		defer func() { _ = recover() }()
		b.Freeze(t.Context(), time.Second)
	}()
	b.Release(true)
	r.wantLog(t, "get", "read", "has read", "read", "has read", "close")
}

// The end of the attempt's context ends a Read that hangs, as it would not with
// net/http's HTTP/1 alone, which waits for it.
func TestContextEndsReads(t *testing.T) {
	gone := errors.New("gone")
	for _, getBody := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			end := make(chan struct{})
			source := &counted{Reader: readFunc(func([]byte) (int, error) { <-end; return 0, io.EOF })}
			ctx, cancel := context.WithCancelCause(t.Context())
			req, _ := http.NewRequestWithContext(ctx, "PUT", "http://service.example", source)
			if getBody {
				req.GetBody = func() (io.ReadCloser, error) { return nil, gone }
			}
			b := new(Body)
			b.Own(req)
			b.Share(100, false)
			out := req.WithContext(ctx)
			b.Attach(out)
			done := make(chan error)
			go func() {
				_, err := out.Body.Read(make([]byte, 1))
				done <- err
			}()
			synctest.Wait()
			cancel(gone)
			if err := <-done; err != gone {
				t.Error(err)
			}
			if _, err := out.Body.Read(make([]byte, 1)); err != gone {
				t.Error(err)
			}
			b.Release(true)
			close(end)
			if synctest.Wait(); source.closes != 1 {
				t.Errorf("closed %d times", source.closes)
			}
		})
	}
}
