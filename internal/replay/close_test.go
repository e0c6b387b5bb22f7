package replay

import (
	"context"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
)

// A sizedHanging is read in place.
type sizedHanging struct{ *httpfake.Body }

func (sizedHanging) Size() int64                             { return 10 }
func (h sizedHanging) ReadAt(p []byte, _ int64) (int, error) { return h.Read(p) }

// The caller's reader is closed after its Read has returned, and nothing waits for
// that. A call that has failed ends the Reads of its copies.
func TestCloseAfterTheRead(t *testing.T) {
	for _, kind := range []string{"stream", "file"} {
		for _, by := range []string{"Base, then the call", "the call", "the call, then Base"} {
			t.Run(kind+", closed by "+by, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					hangs, end := context.WithCancel(t.Context())
					body := hanging(hangs)
					req := httpfake.Request(t, t.Context(), "PUT", body)
					if kind == "file" {
						req.Body, req.ContentLength = sizedHanging{body}, 10
					}
					b, out := shared(req, 100, false)
					ended := make(chan error, 1)
					go func() {
						_, err := out.Body.Read(make([]byte, 1))
						ended <- err
					}()
					synctest.Wait()
					if by == "Base, then the call" {
						out.Body.Close()
					}
					b.Release(true)
					if by == "the call, then Base" {
						out.Body.Close()
					}
					synctest.Wait()
					if wantCloses(t, body, 0); kind != "file" {
						if err := <-ended; err == nil || err == io.EOF {
							t.Errorf("the Read in progress ended with %v", err)
						}
						wantNothing(t, out.Body, nil)
					}
					end()
					synctest.Wait()
					wantCloses(t, body, 1)
				})
			})
		}
	}
}

// A Read that takes longer than a second after the call is ended by Close of the
// caller's reader, which is called once. A panic of that Close is recovered.
func TestCloseOfAReadThatHangs(t *testing.T) {
	for _, kind := range []string{"stream", "GetBody", "file", "Close panics", "Close does not end the Read"} {
		for _, by := range []string{"Base, then the call", "the call", "the call, then Base"} {
			t.Run(kind+", closed by "+by, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					pr, pw := io.Pipe()
					defer pw.Close()
					body := httpfake.NewBody(pr)
					req := httpfake.Request(t, t.Context(), "PUT", body)
					switch kind {
					case "GetBody":
						req.GetBody = func() (io.ReadCloser, error) { t.Error("GetBody is called"); return nil, io.EOF }
					case "file":
						req.Body, req.ContentLength = sizedHanging{body}, 10
					case "Close panics":
						req.Body = struct {
							io.Reader
							io.Closer
						}{body, closeFunc(func() error { body.Close(); panic("close") })}
					case "Close does not end the Read":
						hangs, end := context.WithCancel(t.Context())
						defer end()
						body = hanging(hangs)
						req.Body = body
					}
					b, out := shared(req, 100, by == "Base, then the call") // which then claims the Close
					go out.Body.Read(make([]byte, 1))
					synctest.Wait()
					if by == "Base, then the call" {
						out.Body.Close()
						time.Sleep(time.Hour) // the call continues
						wantCloses(t, body, 0)
					}
					b.Release(true)
					if by == "the call, then Base" {
						out.Body.Close()
					}
					time.Sleep(hangTime - 1)
					wantCloses(t, body, 0)
					time.Sleep(2 * time.Nanosecond)
					if body.Closes() != 1 || body.Reading() != (kind == "Close does not end the Read") {
						t.Errorf("closed %d times, reading: %v", body.Closes(), body.Reading())
					}
					out.Body.Close()
					time.Sleep(time.Hour)
					if body.Closes() != 1 {
						t.Errorf("closed %d times", body.Closes())
					}
				})
			})
		}
	}
}

type closeFunc func() error

func (f closeFunc) Close() error { return f() }

// A Read that returns in time after the call closes the caller's reader itself.
func TestCloseAfterASlowRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, out, body := streamed(t, httpfake.SlowReader(t.Context(), hangTime-1, strings.NewReader("slow")), 100)
		b := out.Body.(*copied).stream
		go out.Body.Read(make([]byte, 1))
		synctest.Wait()
		b.release(true)
		time.Sleep(time.Hour)
		wantCloses(t, body, 1)
	})
}

// A file and a pipe are closed at once, which ends the Read.
func TestCloseThatEndsTheRead(t *testing.T) {
	pipe, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	pr, pw := io.Pipe()
	defer pw.Close()
	for _, body := range []io.ReadCloser{pipe, pr} {
		b, out := shared(httpfake.Request(t, t.Context(), "PUT", body), 100, false)
		go out.Body.Read(make([]byte, 1))
		reading := b.stream.inProgress()
		for reading == nil {
			runtime.Gosched()
			reading = b.stream.inProgress()
		}
		b.Release(true)
		<-reading.ended
	}
}

// A copy that is closed before its first Read loses nothing.
func TestReadAfterUnreadClose(t *testing.T) {
	for _, once := range []bool{false, true} {
		source := httpfake.NewBody(strings.NewReader("body"))
		b, out := shared(httpfake.Request(t, t.Context(), "PUT", source), 100, once)
		out.Body.Close()
		wantRest(t, out.Body, "body")
		wantCloses(t, source, 0)
		out.Body.Close()
		wantNothing(t, out.Body, nil)
		b.Release(false)
		wantCloses(t, source, 1)
	}
}

// A Read in progress when the call ends continues, and closes the caller's body if
// it reaches the end.
func TestEndAfterTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		b, out, source := streamed(t, pr, 100)
		var got strings.Builder
		go io.Copy(&got, out.Body)
		io.WriteString(pw, "one")
		synctest.Wait()
		b.Release(false)
		wantCloses(t, source, 0)
		io.WriteString(pw, "two")
		pw.Close()
		synctest.Wait()
		if wantCloses(t, source, 1); got.String() != "onetwo" {
			t.Errorf("sent %q", got.String())
		}
	})
}
