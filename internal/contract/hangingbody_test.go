package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// These tests are about request bodies whose Read hangs while net/http sends
// them. In their bubbles, time passes only when everything waits.

// echo sends the body back, and no response to a body that breaks off: that
// could come before net/http notices a cancel.
func echo(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(w, r.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// hangingBody brings two bytes, and its end when the channel is closed.
func hangingBody(end <-chan struct{}) io.Reader {
	return struct{ io.Reader }{io.MultiReader(strings.NewReader("bo"), hangUntil(end))}
}

// An attempt ends at once when the caller cancels or its time is up, even if
// its request body hangs. The HTTP/1 of net/http would wait for the body.
func TestCancelWhileTheBodyHangs(t *testing.T) {
	for _, protocol := range httpfake.Protocols {
		for _, getBody := range []func() (io.ReadCloser, error){nil, getBodyOf("body")} {
			t.Run(fmt.Sprintf("%s, GetBody %v", protocol, getBody != nil), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := httpfake.Serve(t, protocol, echo)
					tr := &transport{Base: srv.Base, Backoff: contract.Delay(0)}
					defer tr.CloseIdleConnections()
					end := make(chan struct{})
					defer close(end)
					ctx, cancel := context.WithCancelCause(t.Context())
					time.AfterFunc(time.Second, func() { cancel(errGone) })
					req := srv.Request(t, "PUT", hangingBody(end)).WithContext(ctx)
					req.GetBody = getBody
					start := time.Now()
					resp, err := tr.RoundTrip(req)
					if took := time.Since(start); !errors.Is(err, errGone) || took != time.Second {
						t.Errorf("%v, %v after %v", resp, err, took)
					}
				})
			})
		}
	}
}

func TestTimeoutWhileTheBodyHangs(t *testing.T) {
	for _, protocol := range httpfake.Protocols {
		t.Run(protocol+", no retry", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := httpfake.Serve(t, protocol, echo)
				tr := &transport{Base: srv.Base, AttemptTimeout: time.Second, MaxAttempts: 1}
				defer tr.CloseIdleConnections()
				end := make(chan struct{})
				defer close(end)
				start := time.Now()
				resp, err := tr.RoundTrip(srv.Request(t, "PUT", hangingBody(end)))
				if took := time.Since(start); contract.StopOf(resp, err) != awsretry.StopMaxAttempts ||
					took != time.Second {
					t.Errorf("%v, %v after %v", resp, err, took)
				}
			})
		})
		t.Run(protocol+", GetBody", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := httpfake.Serve(t, protocol, echo)
				tr := &transport{Base: srv.Base, Backoff: contract.Delay(0), AttemptTimeout: time.Second}
				defer tr.CloseIdleConnections()
				end := make(chan struct{})
				defer close(end)
				req := srv.Request(t, "PUT", hangingBody(end))
				req.GetBody = getBodyOf("body")
				start := time.Now()
				resp, err := tr.RoundTrip(req)
				if took := time.Since(start); contract.StopOf(resp, err) != awsretry.StopBody || took != 2*time.Second {
					t.Errorf("%v, %v after %v", resp, err, took)
				}
			})
		})
	}
}

// GetBody may rewind the one reader that there is. So a retry waits for a Read
// of it, whether the server responds early or the connection breaks, and is not
// made if that takes too long.
func TestRetryWhileTheFirstBodyHangs(t *testing.T) {
	for _, protocol := range httpfake.Protocols {
		for _, cut := range []bool{false, true} {
			for _, hangs := range []time.Duration{time.Second, 10 * time.Second} {
				t.Run(fmt.Sprintf("%s, cut %v, for %v", protocol, cut, hangs), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { retryWhileTheFirstBodyHangs(t, protocol, cut, hangs) })
				})
			}
		}
	}
}

func retryWhileTheFirstBodyHangs(t *testing.T, protocol string, cut bool, hangs time.Duration) {
	var srv *httpfake.Server
	var sends atomic.Int32
	srv = httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
		if sends.Add(1) > 1 {
			echo(w, r)
			return
		}
		io.ReadFull(r.Body, make([]byte, 2))
		time.Sleep(500 * time.Millisecond) // until the body hangs
		if cut {
			srv.Cut()
			io.Copy(io.Discard, r.Body)
			return
		}
		if r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close") // or the server would read the body first
		}
		w.WriteHeader(503)
		io.WriteString(w, "busy")
	})
	tr := &transport{Base: srv.Base, Backoff: contract.Delay(0)}
	defer tr.CloseIdleConnections()
	if protocol != "HTTP/2" && cut {
		tr.AttemptTimeout = 500 * time.Millisecond // nothing else ends an attempt over HTTP/1
	}
	body := newRewound("body")
	body.hang = func() { time.Sleep(hangs) }
	start := time.Now()
	resp, err := tr.RoundTrip(body.attachTo(srv.Request(t, "PUT", nil)))
	took := time.Since(start)
	switch {
	case hangs > 2*time.Second && cut:
		if contract.StopOf(resp, err) != awsretry.StopBody || err == nil || took != 1500*time.Millisecond {
			t.Errorf("%v, %v after %v", resp, err, took)
		}
	case hangs > 2*time.Second:
		if contract.StopOf(resp, err) != awsretry.StopBody || httpfake.ReadAll(t, resp) != "busy" ||
			took != 1500*time.Millisecond {
			t.Errorf("%v, %v after %v", resp, err, took)
		}
	case err != nil:
		t.Error(err)
	default:
		if got := httpfake.ReadAll(t, resp); got != "body" || took != time.Second {
			t.Errorf("echoed %q after %v", got, took)
		}
	}
	time.Sleep(hangs)
	body.check(t)
}

// A caller who writes one message and waits for the response gets the error of
// a connection that breaks. Over HTTP/1, net/http waits for the caller's next
// message.
func TestBrokenConnectionWhileTheCallerWaits(t *testing.T) {
	for _, protocol := range []string{"HTTP/2", "h2c"} {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var srv *httpfake.Server
				srv = httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					io.ReadFull(r.Body, make([]byte, len("message")))
					srv.Cut()
					<-r.Context().Done()
				})
				pr, pw := io.Pipe()
				defer pw.Close()
				go io.WriteString(pw, "message")
				tr := &transport{Base: srv.Base, Backoff: contract.Delay(0)}
				defer tr.CloseIdleConnections()
				start := time.Now()
				resp, err := tr.RoundTrip(srv.Request(t, "POST", pr))
				if took := time.Since(start); err == nil || contract.StopOf(resp, err) != awsretry.StopBody ||
					took > time.Second {
					t.Errorf("%v, %v after %v", resp, err, took)
				}
			})
		})
	}
}
