package contract_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// keptWithGetBody is how much is kept of a body with a length and a GetBody.
const keptWithGetBody = 64 << 10

// getBodyOf returns a GetBody of a text.
func getBodyOf(text string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
}

// If GetBody fails, the response is returned, and the retry is not paid for. GetBody
// is called if more was sent than is kept.
func TestFailingGetBody(t *testing.T) {
	for _, err := range []error{errGone, nil} {
		source := httpfake.NewBody(strings.NewReader(httpfake.Text(keptWithGetBody + 1)))
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			httpfake.Receive(req)
			return httpfake.Response(req, 503, httpfake.NewBody(strings.NewReader("busy"))), nil
		})
		req := httpfake.Request(t, t.Context(), "PUT", source)
		req.GetBody, req.ContentLength = func() (io.ReadCloser, error) { return nil, err }, keptWithGetBody+1
		r := send(tr, req)
		if r.wantBody(t, "busy"); r.stop != awsretry.StopBody {
			t.Errorf("%v", r)
		}
		wantClosed(t, source)
		wantTokens(t, tr, 500)
	}
}

// GetBody may rewind the one reader that there is, so it is not called during a
// Read. One that hangs is waited for once, for a second.
func TestGetBodyDuringARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			go httpfake.Receive(req)
			synctest.Wait()
			return httpfake.Response(req, 503, httpfake.NewBody(strings.NewReader("busy"))), nil
		})
		source := httpfake.NewBody(everyNow(3*time.Second/2, "late"))
		req := httpfake.Request(t, t.Context(), "PUT", source)
		req.ContentLength = int64(len("late"))
		req.GetBody = func() (io.ReadCloser, error) { t.Error("GetBody is called"); return nil, errGone }
		r := send(tr, req)
		r.want(t, 503, awsretry.StopBody, time.Second)
		r.wantBody(t, "busy")
		time.Sleep(time.Hour)
		wantClosed(t, source)
	})
}

// A reader in memory is sent again from a copy. GetBody, which may rewind it, is
// not called. The first attempt reads it on.
func TestRewindingInMemory(t *testing.T) {
	for _, inUse := range []bool{false, true} { // a Transport in use takes a shorter way
		text := strings.NewReader("skipped hello, world")
		text.Seek(int64(len("skipped ")), io.SeekStart)
		req := httpfake.Request(t, t.Context(), "PUT", text)
		req.GetBody = func() (io.ReadCloser, error) {
			text.Seek(0, io.SeekStart)
			return io.NopCloser(text), nil
		}
		var first io.Reader
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			switch {
			case req.Body == nil:
			case first == nil:
				first = req.Body
				io.CopyN(io.Discard, first, 3)
				return nil, errReset
			default:
				got, err := httpfake.Receive(req)
				again, _ := req.GetBody()
				twice, _ := io.ReadAll(again)
				rest, _ := io.ReadAll(first)
				if got != "hello, world" || string(twice) != got || string(rest) != "lo, world" || err != nil {
					t.Errorf("the retry sends %q, again %q, the first attempt %q; %v", got, twice, rest, err)
				}
			}
			return httpfake.Empty(200, req), nil
		})
		if inUse {
			sendGet(t, tr).wantBody(t, "")
		}
		send(tr, req).wantBody(t, "")
	}
}

// What signs a request reads what GetBody returns for a hash, and leaves the
// request's own body to be sent. After that GetBody still works.
func TestHashOfGetBody(t *testing.T) {
	const text = "hello, world"
	readAgain := func(t *testing.T, req *http.Request, what string) io.ReadCloser {
		t.Helper()
		again, err := req.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(again); string(got) != text || err != nil {
			t.Errorf("%s is of %q, %v", what, got, err)
		}
		return again
	}
	for _, kind := range filledKinds {
		for _, hook := range []string{"Prepare", "Prepare, which closes it", "Base", "Base, which closes it"} {
			t.Run(kind+", in "+hook, func(t *testing.T) {
				hash := func(where string, req *http.Request) {
					if closes, ok := strings.CutPrefix(hook, where); ok {
						if again := readAgain(t, req, "the hash"); closes != "" {
							again.Close()
						}
					}
				}
				sends := 0
				tr := retrying(func(req *http.Request) (*http.Response, error) {
					sends++
					hash("Base", req)
					io.CopyN(io.Discard, req.Body, 3)
					req.Body.Close()
					readAgain(t, req, "what net/http sends over another connection").Close()
					return httpfake.Empty(map[int]int{1: 503, 2: 200}[sends], req), nil
				})
				if strings.HasPrefix(hook, "Prepare") {
					tr.Prepare = func(req *http.Request, _ int) error { hash("Prepare", req); return nil }
				}
				req := httpfake.Request(t, t.Context(), "PUT", nil)
				bodyKinds[kind](t, text).attachTo(req)
				send(tr, req).wantBody(t, "")
			})
		}
	}
}

// What GetBody returns may be slow, as long as it brings something.
func TestSlowGetBody(t *testing.T) {
	for _, tt := range []struct {
		pause time.Duration // of each Read of 777 bytes
		stop  awsretry.Stop
	}{{20 * time.Millisecond, awsretry.StopSuccess}, {2 * time.Second, awsretry.StopBody}} {
		synctest.Test(t, func(t *testing.T) {
			data := httpfake.Text(100_000)
			body := func(pause time.Duration) io.ReadCloser {
				rest := strings.NewReader(data)
				return io.NopCloser(httpfake.ReadFunc(func(p []byte) (int, error) {
					time.Sleep(pause)
					return rest.Read(p[:min(len(p), 777)])
				}))
			}
			req := httpfake.Request(t, t.Context(), "PUT", nil)
			req.Body, req.ContentLength = body(0), int64(len(data))
			req.GetBody = func() (io.ReadCloser, error) { return body(tt.pause), nil }
			sends := 0
			r := send(retrying(func(req *http.Request) (*http.Response, error) {
				got, err := httpfake.Receive(req)
				if sends++; err != nil || got != data {
					t.Errorf("attempt %d sends %d bytes, %v", sends, len(got), err)
				}
				return httpfake.Empty(map[bool]int{true: 503, false: 200}[sends == 1], req), nil
			}), req)
			if r.stop != tt.stop {
				t.Errorf("%v, want it stopped by %q", r, tt.stop)
			}
			time.Sleep(time.Hour)
		})
	}
}

// echo sends the body back, and no response to a body that breaks off: that
// could come before net/http notices a cancel.
func echo(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(w, r.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}
