package contract_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

const (
	peekLimit     = 64 << 10 // how much of an error body is read ahead
	throttledJSON = `{"__type":"ThrottlingException"}`
)

// The part of an error body that is read ahead for its code is given back.
func TestErrorBodiesAreWhole(t *testing.T) {
	coded := func(n int) string { // n bytes of JSON that begin with a throttling code
		head := `{"__type":"ThrottlingException","pad":"`
		return head + strings.Repeat("x", n-len(head)-2) + `"}`
	}
	padding := strings.Repeat("x", peekLimit)
	readers := map[string]func(string) io.ReadCloser{
		"whole": func(s string) io.ReadCloser { return httpfake.NewBody(strings.NewReader(s)) },
		"half": func(s string) io.ReadCloser {
			return httpfake.NewBody(iotest.HalfReader(strings.NewReader(s)))
		},
		"data with EOF": func(s string) io.ReadCloser {
			return httpfake.NewBody(iotest.DataErrReader(strings.NewReader(s)))
		},
		"in memory": func(s string) io.ReadCloser { return io.NopCloser(strings.NewReader(s)) },
	}
	for _, tt := range []struct {
		name, body, code string
		class            awsretry.Class
	}{
		{"empty", "", "", awsretry.Permanent},
		{"one byte", "{", "", awsretry.Permanent},
		{"small", coded(100), "ThrottlingException", awsretry.Throttled},
		{"just below the limit", coded(peekLimit - 1), "ThrottlingException", awsretry.Throttled},
		{"the limit", coded(peekLimit), "ThrottlingException", awsretry.Throttled},
		{"code after the limit", `{"pad":"` + padding + `","__type":"SlowDown"}`, "", awsretry.Permanent},
		{"long", httpfake.Text(5*peekLimit + 1), "", awsretry.Permanent},
	} {
		for reader, newBody := range readers {
			for _, length := range []int64{-1, int64(len(tt.body))} {
				t.Run(fmt.Sprintf("%s, %s, ContentLength %d", tt.name, reader, length), func(t *testing.T) {
					body := newBody(tt.body)
					var seen awsretry.Attempt
					tr := unpaid(func(req *http.Request) (*http.Response, error) {
						resp := httpfake.Response(req, 400, body, "Content-Type", "application/x-amz-json-1.1")
						resp.ContentLength = length
						return resp, nil
					})
					tr.Observe = func(a awsretry.Attempt) { seen = a }
					resp, err := get(t, tr)
					if err != nil {
						t.Fatal(err)
					}
					if seen.Code != tt.code || seen.Class != tt.class {
						t.Errorf("code %q, %v", seen.Code, seen.Class)
					}
					if got := httpfake.ReadAll(t, resp); got != tt.body {
						t.Errorf("read %d of %d bytes", len(got), len(tt.body))
					}
					if b, ok := body.(*httpfake.Body); ok && (b.Closes() != 1 || b.Overlaps() > 0) {
						t.Errorf("closed %d times, %d overlapping reads", b.Closes(), b.Overlaps())
					}
					if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err == nil || err == io.EOF {
						t.Errorf("Read after Close: %d, %v", n, err)
					}
				})
			}
		}
	}
}

// A code at the very end of the part that is read ahead counts. One that is cut
// off there does not.
func TestCodeAtTheLimit(t *testing.T) {
	const head, tail = `{"pad":"`, `","__type":"SlowDown"}`
	for over, want := range map[int]string{0: "SlowDown", len(`"}`) + 1: ""} {
		t.Run(fmt.Sprintf("%d bytes more", over), func(t *testing.T) {
			body := head + strings.Repeat("x", peekLimit-len(tail)-len(head)+over) + tail
			var seen awsretry.Attempt
			tr := unpaid(respondsWith(400, httpfake.NewBody(strings.NewReader(body))))
			tr.Observe = func(a awsretry.Attempt) { seen = a }
			resp, err := get(t, tr)
			if err != nil || httpfake.ReadAll(t, resp) != body || seen.Code != want {
				t.Errorf("code %q, want %q; %v", seen.Code, want, err)
			}
		})
	}
}

func TestEndlessErrorBody(t *testing.T) {
	given := 0
	source := httpfake.NewBody(httpfake.ReadFunc(func(p []byte) (int, error) {
		for i := range p {
			p[i] = byte((given + i) % 251)
		}
		given += len(p)
		return len(p), nil
	}))
	resp, err := get(t, unpaid(respondsWith(500, source)))
	if err != nil || contract.StopOf(resp, nil) != awsretry.StopQuota {
		t.Fatal(resp, err)
	}
	if given > peekLimit {
		t.Errorf("%d bytes were read ahead", given)
	}
	got := make([]byte, 10*peekLimit)
	if _, err := io.ReadFull(resp.Body, got); err != nil {
		t.Fatal(err)
	}
	for i, b := range got {
		if b != byte(i%251) {
			t.Fatalf("byte %d is %d", i, b)
		}
	}
	if resp.Body.Close(); source.Closes() != 1 {
		t.Error("not closed")
	}
}

// The caller reads the error of a body that breaks, each time.
func TestBrokenErrorBody(t *testing.T) {
	broken := errors.New("cut off")
	for _, data := range []string{"", "{", httpfake.Text(2 * peekLimit)} {
		t.Run(fmt.Sprintf("after %d bytes", len(data)), func(t *testing.T) {
			source := httpfake.NewBody(io.MultiReader(strings.NewReader(data), iotest.ErrReader(broken)))
			resp, err := get(t, unpaid(respondsWith(429, source)))
			if err != nil || contract.StopOf(resp, nil) != awsretry.StopQuota {
				t.Fatal(resp, err)
			}
			for _, want := range []string{data, ""} {
				got, err := io.ReadAll(resp.Body)
				if string(got) != want || err != broken {
					t.Errorf("%d of %d bytes, %v", len(got), len(want), err)
				}
			}
			resp.Body.Close()
		})
	}
}

// A panic of the body is an error for the caller.
func TestPanickingErrorBody(t *testing.T) {
	panicking := httpfake.ReadFunc(func([]byte) (int, error) { panic("body") })
	source := httpfake.NewBody(io.MultiReader(strings.NewReader("abc"), panicking))
	resp, err := get(t, unpaid(respondsWith(500, source)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	if string(got) != "abc" || err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("%q, %v", got, err)
	}
	if resp.Body.Close(); source.Closes() != 1 {
		t.Error("not closed")
	}
}

// A body whose Reads bring nothing is waited for, without spinning: that would
// stop the clock of the bubble.
func TestErrorBodyThatBringsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		empty := 150
		source := io.NopCloser(httpfake.ReadFunc(func(p []byte) (int, error) {
			if empty--; empty > 0 {
				return 0, nil
			}
			return copy(p, "late"), io.EOF
		}))
		resp, err := get(t, unpaid(respondsWith(400, source)))
		if err != nil || empty <= 0 {
			t.Fatal(err, empty)
		}
		if got := httpfake.ReadAll(t, resp); got != "late" {
			t.Errorf("read %q", got)
		}
	})
}

// A body that cannot hold an error code is not read.
func TestBodiesThatAreNotReadAhead(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		header []string
	}{
		{"success", 200, nil},
		{"redirect", 302, nil},
		{"event stream", 500, []string{"Content-Type", "text/event-stream; charset=utf-8"}},
		{"AWS event stream", 500, []string{"Content-Type", "application/vnd.amazon.eventstream"}},
		{"compressed", 500, []string{"Content-Encoding", "gzip"}},
		{"code in the header", 400, []string{"X-Amzn-Errortype", "ThrottlingException"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			source := httpfake.NewBody(strings.NewReader("data"))
			resp, err := get(t, unpaid(respondsWith(tt.status, source, tt.header...)))
			if err != nil || source.Reads() != 0 {
				t.Fatalf("%v, %d reads", err, source.Reads())
			}
			if httpfake.ReadAll(t, resp) != "data" {
				t.Error("not whole")
			}
		})
	}
}

// A writableBody is a body like that of a 101.
type writableBody struct {
	*httpfake.Body
	written    bytes.Buffer
	halfClosed bool
}

func (b *writableBody) Write(p []byte) (int, error) { return b.written.Write(p) }
func (b *writableBody) CloseWrite() error           { b.halfClosed = true; return nil }

// wantWritable fails unless body writes and closes through to b.
func wantWritable(t *testing.T, b *writableBody, body io.ReadCloser) {
	t.Helper()
	if w, ok := body.(io.Writer); !ok {
		t.Errorf("the body is a %T", body)
	} else if _, err := w.Write([]byte("hi")); err != nil || b.written.String() != "hi" {
		t.Errorf("wrote %q, %v", b.written.String(), err)
	}
	if half, ok := body.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil || !b.halfClosed {
		t.Error("CloseWrite does not reach the connection")
	}
}

// An error body that is also an io.Writer is read for its code and stays one.
func TestWritableErrorBody(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Second} {
		t.Run(fmt.Sprintf("time-out %v", timeout), func(t *testing.T) {
			body := &writableBody{Body: httpfake.NewBody(strings.NewReader(throttledJSON))}
			tr := unpaid(respondsWith(400, body))
			tr.AttemptTimeout = timeout
			resp, err := get(t, tr)
			if err != nil {
				t.Fatal(err)
			}
			if record, _ := awsretry.Outcome(resp); record.Class != awsretry.Throttled {
				t.Errorf("classified as %v", record.Class)
			}
			wantWritable(t, body, resp.Body)
			if got := httpfake.ReadAll(t, resp); got != throttledJSON || body.Closes() != 1 {
				t.Errorf("read %q, closed %d times", got, body.Closes())
			}
		})
	}
}

// A 101 is a connection, which its attempt's time-out does not end.
func TestUpgradedConnection(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Second} {
		t.Run(fmt.Sprintf("time-out %v", timeout), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := &writableBody{Body: httpfake.NewBody(strings.NewReader("hello"))}
				attempt := t.Context()
				tr := once(func(req *http.Request) (*http.Response, error) {
					attempt = req.Context()
					return httpfake.Response(req, 101, conn), nil
				})
				tr.AttemptTimeout = timeout
				resp, err := get(t, tr)
				if err != nil || conn.Reads() > 0 {
					t.Fatal(err, conn.Reads())
				}
				time.Sleep(time.Hour)
				if attempt.Err() != nil {
					t.Errorf("the attempt's context has ended: %v", attempt.Err())
				}
				wantWritable(t, conn, resp.Body)
				if got := httpfake.ReadAll(t, resp); got != "hello" || conn.Closes() != 1 {
					t.Errorf("read %q, closed %d times", got, conn.Closes())
				}
				if timeout > 0 && attempt.Err() == nil {
					t.Error("the attempt's context outlives the body")
				}
			})
		})
	}
}
