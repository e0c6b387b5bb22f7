package contract_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// These tests are about request bodies whose Read is in progress when an attempt
// ends.

// everyNow returns a body that brings one part each d, and then its end.
func everyNow(d time.Duration, parts ...string) io.Reader {
	return struct{ io.Reader }{httpfake.ReadFunc(func(p []byte) (int, error) {
		time.Sleep(d)
		if len(parts) == 0 {
			return 0, io.EOF
		}
		n := copy(p, parts[0])
		parts = parts[1:]
		return n, nil
	})}
}

// receiving returns a Base that reads the first request on another goroutine,
// as net/http does, and has an outcome.
func receiving(first outcome) httpfake.Base {
	return firstThenEchoes(func(req *http.Request) (*http.Response, error) {
		go httpfake.Receive(req)
		time.Sleep(time.Millisecond)
		return first(req, httpfake.NewBody(strings.NewReader("busy")))
	})
}

// If Base still reads the body when its response is there, the retry waits for
// the Read that is in progress, and for nothing else.
func TestRetryWaitsForARead(t *testing.T) {
	const never = -1
	for _, tt := range []struct {
		closes   time.Duration // how late Base closes its copy
		canceled bool
	}{{0, false}, {4 * time.Second, false}, {never, false}, {never, true}} {
		inBubble(t, fmt.Sprintf("%+v", tt), func(t *testing.T) {
			data := httpfake.Text(40)
			rest := strings.NewReader(data)
			source := httpfake.NewBody(httpfake.ReadFunc(func(p []byte) (int, error) {
				time.Sleep(time.Second)
				return rest.Read(p[:min(len(p), 7)])
			}))
			tr := retrying(firstThenEchoes(func(req *http.Request) (*http.Response, error) {
				io.ReadFull(req.Body, make([]byte, 3))
				go func() {
					io.Copy(io.Discard, req.Body) // ends with the Read that is in progress
					if n, err := req.Body.Read(make([]byte, 1)); n > 0 || err == nil || err == io.EOF {
						t.Error("the first attempt could read on")
					}
					if tt.closes != never {
						time.Sleep(tt.closes)
						req.Body.Close() // while the second attempt reads
					}
				}()
				time.Sleep(time.Second / 2)
				return busy(req, http.NoBody)
			}))
			tr.MaxBodyBuffer = 3 // it is full when the response comes; the Read in progress is kept all the same
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tt.canceled {
				time.AfterFunc(1700*time.Millisecond, func() { cancel(errGone) })
			}
			r := send(tr, httpfake.Request(t, ctx, "POST", source))
			if tt.canceled {
				r.want(t, 0, awsretry.StopCanceled, 1700*time.Millisecond)
				if r.wantIs(t, errGone); !strings.Contains(r.err.Error(), "503") {
					t.Error(r.err)
				}
				wantTokens(t, tr, 500)
			} else {
				// Two Reads, then the retry: five Reads with 30 bytes, and the end.
				r.want(t, 200, awsretry.StopSuccess, 8*time.Second)
				r.wantBody(t, data)
			}
			time.Sleep(time.Minute)
			if wantClosed(t, source); source.Overlaps() > 0 || source.ReadsAfterClose() > 0 {
				t.Errorf("%d overlapping reads, %d after Close", source.Overlaps(), source.ReadsAfterClose())
			}
		})
	}
}

// The error of a Read that Base cut short by closing the body is not a failure
// of the caller's reader.
func TestReadThatCloseCuts(t *testing.T) {
	for attempts, want := range map[int]awsretry.Stop{1: awsretry.StopMaxAttempts, 3: awsretry.StopBody} {
		inBubble(t, fmt.Sprintf("MaxAttempts %d", attempts), func(t *testing.T) {
			pr, pw := io.Pipe()
			defer pw.Close()
			go io.WriteString(pw, "a message")
			tr := retrying(func(req *http.Request) (*http.Response, error) {
				done := make(chan bool)
				go func() { io.Copy(io.Discard, req.Body); close(done) }()
				time.Sleep(time.Second)
				req.Body.Close() // as net/http does when the connection breaks
				<-done
				return nil, errReset
			})
			tr.MaxBodyBuffer, tr.MaxAttempts = 2, attempts
			r := send(tr, httpfake.Request(t, t.Context(), "PUT", pr))
			if r.wantIs(t, errReset); r.stop != want {
				t.Errorf("%v, want it stopped by %q", r, want)
			}
		})
	}
}

// A Read that takes longer than a second is waited for if the delay before the
// retry is as long. The wait ends with the call, and before the deadline.
func TestWaitForAReadEnds(t *testing.T) {
	slowly := func() io.Reader { return everyNow(3*time.Second, "one", "two", "three") }
	never := func() io.Reader { return everyNow(10 * time.Hour) }
	eof := fails(io.ErrUnexpectedEOF)
	for _, tt := range []struct {
		name     string
		first    outcome
		body     func() io.Reader
		delay    time.Duration
		timeout  time.Duration // AttemptTimeout
		canceled time.Duration // Request.Cancel
		deadline time.Duration
		stop     awsretry.Stop
		most     time.Duration // two seconds less at least
	}{
		// Four Reads of 3 s; most of the delay passes during the first.
		{name: "long delay", first: busy, body: slowly, delay: 5 * time.Second, stop: awsretry.StopSuccess,
			most: 14200 * time.Millisecond},
		{name: "short delay", first: eof, body: slowly, stop: awsretry.StopBody, most: 1200 * time.Millisecond},
		{name: "AttemptTimeout", first: hangs, body: never, timeout: 5 * time.Second, stop: awsretry.StopBody,
			most: 7 * time.Second},
		{name: "canceled after an error", first: eof, body: never, canceled: time.Second / 2, stop: awsretry.StopCanceled,
			most: time.Second / 2},
		{name: "canceled after a response", first: busy, body: never, canceled: time.Second / 2,
			stop: awsretry.StopCanceled, most: time.Second / 2},
		{name: "deadline after a response", first: busy, body: never, deadline: time.Second / 2, stop: awsretry.StopBody,
			most: 400 * time.Millisecond},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			tr := retrying(receiving(tt.first))
			tr.Backoff, tr.AttemptTimeout = delayed(tt.delay), tt.timeout
			req := httpfake.Request(t, within(t, tt.deadline), "PUT", tt.body())
			if tt.canceled > 0 {
				req.Cancel = closeAfter(tt.canceled)
			}
			r := send(tr, req)
			if r.stop != tt.stop || r.took > tt.most || r.took < tt.most-2*time.Second {
				t.Errorf("%v, want it stopped by %q after %v at most", r, tt.stop, tt.most)
			}
			if tt.stop == awsretry.StopSuccess {
				r.wantBody(t, "onetwothree")
			}
			time.Sleep(20 * time.Hour) // until the body is read
		})
	}
}

// Over a connection an attempt ends at once when the caller cancels or its time
// is up, even if its request body hangs. The HTTP/1 of net/http would wait for
// the body.
func TestBodyThatHangsOverAConnection(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
		for _, tt := range []struct {
			name    string
			getBody func() (io.ReadCloser, error)
			timeout time.Duration // 0: the caller cancels after a second
			stop    awsretry.Stop
			took    time.Duration
		}{
			{"canceled", nil, 0, awsretry.StopCanceled, time.Second},
			{"timeout", getBodyOf("body"), time.Second, awsretry.StopBody, 2 * time.Second},
		} {
			inBubble(t, protocol+", "+tt.name, func(t *testing.T) {
				srv := httpfake.Serve(t, protocol, echo)
				tr := retryingOver(srv)
				defer tr.CloseIdleConnections()
				end := make(chan struct{})
				defer close(end)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tr.AttemptTimeout = tt.timeout; tt.timeout == 0 {
					time.AfterFunc(time.Second, cancel)
				}
				req := srv.Request(t, "PUT", struct{ io.Reader }{io.MultiReader(strings.NewReader("bo"), hangUntil(end))})
				req.GetBody = tt.getBody
				send(tr, req.WithContext(ctx)).want(t, 0, tt.stop, tt.took)
			})
		}
	}
}

// The writer of a pipe inside somebody's reader learns that the call is over: the
// reader is closed, even during its Read, if that hangs for another second.
func TestBodyThatHangsAfterTheCall(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2", "h2c"} {
		for _, tt := range []struct {
			name    string
			kept    int64 // MaxBodyBuffer
			getBody func() (io.ReadCloser, error)
		}{{"kept", 0, nil}, {"not kept", -1, nil}, {"GetBody", 0, getBodyOf("body")}} {
			for _, end := range []string{"connection dies", "canceled", "timeout", "response is closed"} {
				if protocol == "HTTP/1.1" && (end == "connection dies" || end == "response is closed") {
					continue // net/http waits for the Read
				}
				inBubble(t, fmt.Sprintf("%s, %s, %s", protocol, tt.name, end), func(t *testing.T) {
					read := make(chan struct{})
					srv := httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
						io.ReadFull(r.Body, make([]byte, len("begins")))
						if end == "response is closed" {
							w.(http.Flusher).Flush()
						}
						close(read)
						io.Copy(io.Discard, r.Body)
					})
					tr := retryingOver(srv)
					defer tr.CloseIdleConnections()
					if tr.MaxBodyBuffer = tt.kept; end == "timeout" {
						tr.AttemptTimeout = time.Minute
					}
					pr, pw := io.Pipe()
					go io.WriteString(pw, "begins")
					source := httpfake.NewBody(pr)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					req := srv.Request(t, "POST", source).WithContext(ctx)
					req.GetBody = tt.getBody
					go func() {
						<-read
						time.Sleep(time.Millisecond) // until the next Read hangs
						switch end {
						case "connection dies":
							srv.Cut()
						case "canceled":
							cancel()
						}
					}()
					r := send(tr, req)
					if end == "response is closed" {
						time.Sleep(time.Millisecond)
						r.response(t).Body.Close()
					} else if r.err == nil {
						t.Fatal(r)
					}
					time.Sleep(time.Second - time.Millisecond)
					if source.Closes() > 0 || !source.Reading() {
						t.Errorf("after %v: closed %d times, reading: %v", r, source.Closes(), source.Reading())
					}
					time.Sleep(2 * time.Millisecond)
					if source.Closes() != 1 || source.Reading() {
						t.Errorf("a second after %v: closed %d times, reading: %v", r, source.Closes(), source.Reading())
					}
					if _, err := io.WriteString(pw, "more"); err != io.ErrClosedPipe {
						t.Errorf("the writer gets %v", err)
					}
				})
			}
		}
	}
}
