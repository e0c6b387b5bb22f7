package contract_test

import (
	"bytes"
	"context"
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
	"example.com/awsretry/internal/httpfake"
)

// These tests are about response bodies that are read ahead for an error code.

const (
	peekLimit     = 64 << 10 // how much of an error body is read ahead
	throttledJSON = `{"__type":"ThrottlingException"}`
)

// The part of an error body that is read ahead for its code is given back. A
// code at the very end of that part counts, and one that is cut off there does
// not.
func TestErrorBodiesAreWhole(t *testing.T) {
	pad := func(n int) string { return `{"pad":"` + strings.Repeat("x", n) + `"` }
	const tail = `,"__type":"ThrottlingException"}`
	most := peekLimit - len(pad(0)) - len(tail)
	readers := map[string]func(io.Reader) io.ReadCloser{
		"whole":         func(r io.Reader) io.ReadCloser { return httpfake.NewBody(r) },
		"data with EOF": func(r io.Reader) io.ReadCloser { return httpfake.NewBody(iotest.DataErrReader(r)) },
		"in memory":     io.NopCloser,
	}
	for _, tt := range []struct {
		name, body string
		coded      bool
	}{
		{"empty", "", false},
		{"small", throttledJSON, true},
		{"the limit", pad(most) + tail, true},
		{"over the limit", pad(most+len(`"}`)+1) + tail, false},
		{"long", httpfake.Text(5*peekLimit + 1), false},
	} {
		for reader, newBody := range readers {
			for _, length := range []int64{-1, int64(len(tt.body))} {
				t.Run(fmt.Sprintf("%s, %s, ContentLength %d", tt.name, reader, length), func(t *testing.T) {
					source := strings.NewReader(tt.body)
					body := newBody(source)
					r := sendGet(t, unpaid(func(req *http.Request) (*http.Response, error) {
						resp := httpfake.Response(req, 400, body, "Content-Type", "application/x-amz-json-1.1")
						resp.ContentLength = length
						return resp, nil
					}))
					record, _ := awsretry.Outcome(r.Response)
					if coded := record.Code == "ThrottlingException"; coded != tt.coded ||
						(record.Class == awsretry.Throttled) != coded {
						t.Errorf("code %q, %v", record.Code, record.Class)
					}
					if ahead := len(tt.body) - source.Len(); reader == "whole" && ahead > peekLimit {
						t.Errorf("%d bytes are read ahead", ahead)
					}
					r.wantBody(t, tt.body)
					if b, ok := body.(*httpfake.Body); ok && (b.Closes() != 1 || b.Overlaps() > 0) {
						t.Errorf("closed %d times, %d overlapping reads", b.Closes(), b.Overlaps())
					}
					if n, err := r.Body.Read(make([]byte, 1)); n != 0 || err == nil || err == io.EOF {
						t.Errorf("Read after Close: %d, %v", n, err)
					}
				})
			}
		}
	}
}

// A body whose Reads bring nothing is waited for, without spinning: that would
// stop the clock of the bubble.
func TestErrorBodyThatBringsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		empty := 150
		nothing := httpfake.ReadFunc(func([]byte) (int, error) {
			if empty--; empty == 0 {
				return 0, io.EOF
			}
			return 0, nil
		})
		body := io.NopCloser(io.MultiReader(nothing, strings.NewReader("late")))
		sendGet(t, unpaid(respondsWith(400, body))).wantBody(t, "late")
	})
}

// The caller reads the error of a body that breaks, each time. A panic of the
// body is an error too.
func TestBrokenErrorBody(t *testing.T) {
	brokenEnd := iotest.ErrReader(errReset)
	panicking := httpfake.ReadFunc(func([]byte) (int, error) { panic("body") })
	for name, tt := range map[string]struct {
		data string
		end  io.Reader
		says string
	}{
		"at once":    {"", brokenEnd, errReset.Error()},
		"later":      {httpfake.Text(2 * peekLimit), brokenEnd, errReset.Error()},
		"by a panic": {"{", panicking, "panicked"},
	} {
		t.Run(name, func(t *testing.T) {
			source := httpfake.NewBody(io.MultiReader(strings.NewReader(tt.data), tt.end))
			r := sendGet(t, unpaid(respondsWith(429, source)))
			r.want(t, 429, awsretry.StopQuota, r.took)
			for _, want := range []string{tt.data, ""} {
				got, err := io.ReadAll(r.Body)
				if string(got) != want || err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%d of %d bytes, %v", len(got), len(want), err)
				}
			}
			r.Body.Close()
			wantClosed(t, source)
		})
	}
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
		{"code in the header", 400, []string{"X-Amzn-Errortype", "ThrottlingException"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			source := httpfake.NewBody(strings.NewReader("data"))
			r := sendGet(t, unpaid(respondsWith(tt.status, source, tt.header...)))
			if source.Reads() != 0 {
				t.Errorf("%v, %d reads", r, source.Reads())
			}
			r.wantBody(t, "data")
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
// That of a 101 is a connection, which its attempt's timeout does not end.
func TestWritableErrorBody(t *testing.T) {
	for _, timeout := range timeouts {
		for _, status := range []int{400, 101} {
			inBubble(t, fmt.Sprintf("%d, timeout %v", status, timeout), func(t *testing.T) {
				body := &writableBody{Body: httpfake.NewBody(strings.NewReader(throttledJSON))}
				attempt := t.Context()
				tr := unpaid(func(req *http.Request) (*http.Response, error) {
					attempt = req.Context()
					return httpfake.Response(req, status, body), nil
				})
				tr.AttemptTimeout = timeout
				r := sendGet(t, tr)
				if record, _ := awsretry.Outcome(r.Response); (record.Class == awsretry.Throttled) != (status == 400) {
					t.Errorf("classified as %v", record.Class)
				}
				if time.Sleep(time.Hour); status == 101 && (attempt.Err() != nil || body.Reads() > 0) {
					t.Errorf("%d Reads; the attempt's context has ended: %v", body.Reads(), attempt.Err())
				}
				wantWritable(t, body, r.Body)
				r.wantBody(t, throttledJSON)
				if wantClosed(t, body.Body); timeout > 0 && attempt.Err() == nil {
					t.Error("the attempt's context outlives the body")
				}
			})
		}
	}
}

// The part of an error body that has not arrived after a second does not count
// for its code. The response is returned then. The part is not lost: the caller's
// Read takes over the Read in progress, and nothing else reads.
func TestSlowErrorBody(t *testing.T) {
	for status, stop := range map[int]awsretry.Stop{500: awsretry.StopQuota, 400: awsretry.StopPermanent} {
		inBubble(t, fmt.Sprint(status), func(t *testing.T) {
			const first = `{"__type":"ThrottlingExc`
			rest := everyNow(10*time.Second, "eption", `"}`)
			source := httpfake.NewBody(io.MultiReader(strings.NewReader(first), rest))
			r := sendGet(t, unpaid(respondsWith(status, source)))
			r.want(t, status, stop, time.Second)
			if record, _ := awsretry.Outcome(r.Response); record.Code != "" {
				t.Errorf("code %q", record.Code)
			}
			reads := source.Reads()
			if time.Sleep(time.Minute); source.Reads() != reads || source.Reading() {
				t.Errorf("%d reads after RoundTrip", source.Reads()-reads)
			}
			if r.wantBody(t, first+`eption"}`); source.Overlaps() > 0 {
				t.Errorf("%d overlapping reads", source.Overlaps())
			}
		})
	}
}

// Amazon S3 responds to a copy with a 200 at once, and writes the result later.
// It is waited for only as long as it may become an error document.
func TestHiddenError(t *testing.T) {
	const slowDown = "<Error><Code>SlowDown</Code></Error>"
	for _, tt := range []struct {
		name        string
		begin, rest string // the rest comes after 30 s
		timeout     time.Duration
		want        time.Duration
		stop        awsretry.Stop
	}{
		{"waited for", "<?xml version='1.0'?>", slowDown, 0, 30 * time.Second, awsretry.StopQuota},
		{"within the timeout", "<?xml version='1.0'?>", slowDown, time.Minute, 30 * time.Second, awsretry.StopQuota},
		{"until the timeout", "<?xml version='1.0'?>", slowDown, 10 * time.Second, 10 * time.Second, ""},
		{"until the deadline", "<?xml version='1.0'?>", "", 0, time.Hour, awsretry.StopDeadline},
		{"JSON", `{"progress":1}`, "", 0, 0, ""},
		{"a result", "<?xml version=\"1.0\"?>\n<CopyObjectResult>", "", 0, 0, ""},
		{"a comment", "<?xml version=\"1.0\"?>\n<!-- wait -->", "", 0, time.Hour, awsretry.StopDeadline},
		{"a part of a tag", "<Err", "", 0, time.Hour, awsretry.StopDeadline},
		{"nothing", "", "", 0, time.Hour, awsretry.StopDeadline},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			tr := unpaid(func(req *http.Request) (*http.Response, error) {
				rest := failAfter(req.Context())
				if tt.rest != "" {
					rest = httpfake.SlowReader(req.Context(), 30*time.Second, iotest.DataErrReader(strings.NewReader(tt.rest)))
				}
				return httpfake.Response(req, 200, httpfake.NewBody(io.MultiReader(strings.NewReader(tt.begin), rest))), nil
			})
			tr.AttemptTimeout = tt.timeout
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			req := httpfake.Request(t, ctx, "PUT", nil)
			req.Header.Set("X-Amz-Copy-Source", "bucket/key")
			r := send(tr, req)
			if r.took != tt.want || r.stop != tt.stop {
				t.Errorf("%v, want %q after %v", r, tt.stop, tt.want)
			}
			switch cancel(); {
			case r.Response == nil: // the body ended with the caller's context
				r.wantIs(t, context.DeadlineExceeded)
			case tt.stop != "":
				r.wantBody(t, tt.begin+tt.rest)
			case tt.want == 0:
				if got, err := io.ReadAll(r.Body); !errors.Is(err, context.Canceled) || string(got) != tt.begin {
					t.Errorf("read %q, %v", got, err)
				}
				fallthrough
			default:
				r.Body.Close()
			}
		})
	}
}

// The error document that Amazon S3 sends with a 200 counts for each operation
// whose response is a document or nothing, and never for the caller's data.
func TestHiddenErrorOfAnOperation(t *testing.T) {
	const slowDown = "<?xml version='1.0'?>\n<Error><Code>SlowDown</Code></Error>"
	for _, tt := range []struct {
		request, body string
		sent          int
		stop          awsretry.Stop
	}{
		{"POST /b?delete", slowDown, 2, awsretry.StopSuccess},
		{"GET /b?list-type=2&prefix=a", slowDown, 2, awsretry.StopSuccess},
		{"PUT /b?acl", slowDown, 2, awsretry.StopSuccess},
		{"GET /b?acl", "<Error><Code>AccessDenied</Code></Error>", 2, awsretry.StopSuccess},
		{"GET /b?acl", "<Error><Message>busy</Message></Error>", 2, awsretry.StopSuccess},
		{"GET /b?acl", "<Error><Code>Client.Denied</Code></Error>", 1, awsretry.StopPermanent},
		{"POST /b?delete", `{"code":"SlowDown"}`, 1, ""},
		{"POST /b?delete", "<DeleteResult><Error><Code>InternalError</Code></Error></DeleteResult>", 1, ""},
		{"PUT /b?acl", "", 1, ""},
		{"GET /b/key", slowDown, 1, ""},
	} {
		for way, newContext := range ways {
			inBubble(t, tt.request+" "+tt.body[:min(len(tt.body), 20)]+", "+way, func(t *testing.T) {
				var bodies []*httpfake.Body
				tr := retrying(func(req *http.Request) (*http.Response, error) {
					text := "<Result>"
					if len(bodies) == 1 {
						text = tt.body
					}
					bodies = append(bodies, httpfake.NewBody(strings.NewReader(text)))
					return httpfake.Response(req, 200, bodies[len(bodies)-1], "X-Amzn-Errortype", "SlowDown"), nil // S3 sends no such header
				})
				ctx, cancel := newContext(t.Context())
				defer cancel()
				httpfake.ReadAll(t, send(tr, httpfake.Request(t, ctx, "GET", nil)).response(t)) // the fast path is for later ones
				method, url, _ := strings.Cut(tt.request, " ")
				req := httpfake.Request(t, ctx, method, nil)
				req.URL.Path, req.URL.RawQuery, _ = strings.Cut(url, "?")
				r := send(tr, req)
				if r.response(t); len(bodies)-1 != tt.sent || r.stop != tt.stop {
					t.Errorf("%v after %d attempts, want %q after %d", r, len(bodies)-1, tt.stop, tt.sent)
				}
				if reads := bodies[1].Reads(); tt.stop == "" && tt.body == slowDown && reads > 0 {
					t.Errorf("%d Reads of the caller's data", reads)
				}
				want := tt.body
				if tt.sent == 2 {
					want = "<Result>"
				}
				r.wantBody(t, want)
			})
		}
	}
}

// A response that only looks like one of Amazon S3 is returned with its first
// bytes, and a stream at once.
func TestWhatIsNoHiddenError(t *testing.T) {
	for _, tt := range []struct {
		name, kind string
		pieces     []string
		took       time.Duration
	}{
		{"JSON", "application/json", []string{"[", "1]"}, 10 * time.Second},
		{"a list of errors", "", []string{"<Error", "s>", "</Errors>"}, 20 * time.Second},
		{"events", "text/event-stream", []string{"data: 1\n\n", "data: 2\n\n"}, 0},
		{"a picture", "image/svg+xml", []string{"<svg>", "</svg>"}, 0},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			body := httpfake.NewBody(arriving(tt.pieces))
			req := httpfake.Request(t, t.Context(), "GET", nil)
			req.URL.RawQuery = "versions&list-type=2"
			r := send(retrying(respondsWith(200, body, "Content-Type", tt.kind)), req)
			r.want(t, 200, "", tt.took)
			r.wantBody(t, strings.Join(tt.pieces, ""))
		})
	}
}
