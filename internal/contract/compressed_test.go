package contract_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// These tests are about response bodies that are compressed when they reach the
// Transport. The caller gets them as they came.

var codings = []string{"gzip", "deflate", "raw"} // of httpfake.Compressed

// compressed returns a response with a body in a coding.
func compressed(req *http.Request, status int, coding, body string, header ...string) *http.Response {
	resp := httpfake.Response(req, status, httpfake.NewBody(strings.NewReader(body)),
		append(header, "Content-Encoding", httpfake.ContentEncoding(coding))...)
	resp.ContentLength = int64(len(body))
	return resp
}

// arriving returns a reader of a body that brings a piece every 10 s.
func arriving(pieces []string) io.Reader {
	return httpfake.ReadFunc(func(p []byte) (n int, err error) {
		time.Sleep(10 * time.Second)
		n = copy(p, pieces[0])
		if pieces = pieces[1:]; len(pieces) == 0 {
			err = io.EOF
		}
		return n, err
	})
}

// wantCompressed fails unless the caller gets the body byte by byte as it came.
func wantCompressed(t *testing.T, resp *http.Response, coding, body string) {
	t.Helper()
	if got := resp.Header.Get("Content-Encoding"); got != httpfake.ContentEncoding(coding) ||
		resp.ContentLength != int64(len(body)) || resp.Uncompressed {
		t.Errorf("Content-Encoding %q, ContentLength %d of %d", got, resp.ContentLength, len(body))
	}
	if got := httpfake.ReadAll(t, resp); got != body {
		t.Errorf("%s: the body is changed: %.40q", coding, got)
	}
}

// The code of an error counts, however it is compressed and in whatever
// protocol, also if the rest is cut off or broken.
func TestCodeOfACompressedError(t *testing.T) {
	const slowDown = "<Error><Code>SlowDown</Code></Error>"
	pad := func(n int) string { return strings.Repeat(" ", n) }
	zip := func(coding, text string) string { return httpfake.Compressed(coding, text)[0] }
	first := func(coding, text, rest string) string { return httpfake.Compressed(coding, text, rest)[0] }
	for _, tt := range []struct {
		name   string
		status int
		body   func(coding string) string
		want   string // the code
	}{
		{"JSON", 400, func(c string) string { return zip(c, throttledJSON) }, "ThrottlingException"},
		{"XML", 503, func(c string) string { return zip(c, slowDown) }, "SlowDown"},
		{"cut after the code", 503, func(c string) string { return first(c, slowDown, httpfake.Text(9)) }, "SlowDown"},
		{"cut in the code", 503, func(c string) string { return first(c, slowDown[:16], slowDown[16:]) }, ""},
		{"broken after the code", 503, func(c string) string { return first(c, slowDown, "") + "\xff\xff\xff" }, "SlowDown"},
		{"nothing", 503, func(string) string { return "" }, ""},
		{"not compressed", 400, func(string) string { return throttledJSON }, ""},
		{"the last bytes of 64 KiB", 503, func(c string) string { return zip(c, pad(peekLimit-len(slowDown))+slowDown) }, "SlowDown"},
		{"after 64 KiB", 503, func(c string) string { return zip(c, pad(peekLimit)+slowDown) }, ""},
		{"a bomb", 503, func(c string) string { return zip(c, pad(10<<20)+slowDown) }, ""},
		{"a code in the header", 400, func(c string) string { return zip(c, slowDown) }, "Foo"},
	} {
		for _, coding := range codings {
			inBubble(t, tt.name+"/"+coding, func(t *testing.T) {
				body := tt.body(coding)
				r := sendGet(t, unpaid(func(req *http.Request) (*http.Response, error) {
					resp := compressed(req, tt.status, coding, body)
					if tt.want == "Foo" {
						resp.Header.Set("X-Amzn-Errortype", "Foo")
					}
					return resp, nil
				}))
				record, _ := awsretry.Outcome(r.response(t))
				throttled := tt.want != "" && tt.want != "Foo"
				if record.Code != tt.want || (record.Class == awsretry.Throttled) != throttled {
					t.Errorf("code %q, %v; want %q", record.Code, record.Class, tt.want)
				}
				wantCompressed(t, r.Response, coding, body)
			})
		}
	}
}

// A body in another coding, or in several, is not read for its code, and neither
// a Policy nor a hook takes its bytes for text.
func TestOtherCodings(t *testing.T) {
	for _, coding := range []string{"br", "zstd", "gzip, gzip", "compress"} {
		for _, status := range []int{200, 429} {
			inBubble(t, fmt.Sprint(coding, " ", status), func(t *testing.T) {
				source := httpfake.NewBody(strings.NewReader(throttledJSON))
				tr := unpaid(respondsWith(status, source, "Content-Encoding", coding))
				tr.RetryAfter = func(_ *http.Response, body []byte) (time.Duration, bool) {
					if len(body) > 0 {
						t.Errorf("RetryAfter sees %q", body)
					}
					return 0, false
				}
				tr.Peek = func(*http.Response, []byte) bool { t.Error("Peek is called"); return true }
				tr.Policy = func(a *awsretry.Attempt) awsretry.Class {
					if len(a.Body) > 0 || a.Code != "" {
						t.Errorf("Policy sees %q, code %q", a.Body, a.Code)
					}
					return awsretry.DefaultPolicy(a)
				}
				r := sendGet(t, tr)
				if source.Reads() != 0 {
					t.Errorf("%d reads", source.Reads())
				}
				r.wantBody(t, throttledJSON)
			})
		}
	}
}

// RetryAfter, Peek, a Policy and observers see what a body says.
func TestHooksSeeDecompressedBodies(t *testing.T) {
	for _, coding := range codings {
		inBubble(t, coding, func(t *testing.T) {
			const asks = `{"retry": 7}`
			busyBody := httpfake.Compressed(coding, asks+strings.Repeat(" ", 100_000))[0]
			okBody := httpfake.Compressed(coding, "busy\nmore")[0]
			sent, seen := 0, []string{}
			tr := &transport{RetryAfterSpread: -1, Backoff: delayed(time.Second), MaxAttempts: 3}
			tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
				if sent++; sent == 1 {
					return compressed(req, 429, coding, busyBody), nil
				}
				return compressed(req, 200, coding, okBody), nil
			})
			tr.RetryAfter = func(resp *http.Response, body []byte) (time.Duration, bool) {
				if resp.StatusCode == 429 && len(body) != peekLimit {
					t.Errorf("RetryAfter sees %d bytes", len(body))
				}
				return 7 * time.Second, strings.HasPrefix(string(body), asks)
			}
			tr.Peek, tr.Policy = peekLine, errorLine
			tr.Observe = func(a awsretry.Attempt) { seen = append(seen, string(a.Body[:min(len(a.Body), 12)])) }
			r := sendGet(t, tr)
			r.want(t, 200, awsretry.StopMaxAttempts, 8*time.Second)
			if want := []string{asks, "busy\nmore", "busy\nmore"}; fmt.Sprint(seen) != fmt.Sprint(want) {
				t.Errorf("observed %q, want %q", seen, want)
			}
			wantCompressed(t, r.Response, coding, okBody)
		})
	}
}

// A compressed stream is peeked at as it arrives. It is returned at the instant
// of the line that is waited for, and one that breaks off before is a failure.
func TestPeekAtACompressedStream(t *testing.T) {
	for _, coding := range codings {
		inBubble(t, coding, func(t *testing.T) {
			pieces := httpfake.Compressed(coding, "o", "k", "\n", "more\n")
			sent := 0
			tr := retrying(func(req *http.Request) (*http.Response, error) {
				sent++
				body := arriving(pieces[:2*min(sent, 2)])
				if sent == 1 {
					body = io.MultiReader(body, iotest.ErrReader(errReset))
				}
				return httpfake.Response(req, 200, httpfake.NewBody(body),
					"Content-Encoding", httpfake.ContentEncoding(coding)), nil
			})
			tr.Peek, tr.Policy = peekLine, errorLine
			r := sendGet(t, tr)
			r.want(t, 200, awsretry.StopSuccess, 50*time.Second)
			r.wantBody(t, strings.Join(pieces, ""))
		})
	}
}

// The error document that Amazon S3 sends with a 200 is found if it is
// compressed, and a result is not waited for.
func TestCompressedHiddenError(t *testing.T) {
	for _, tt := range []struct {
		name  string
		parts []string
		took  time.Duration
		stop  awsretry.Stop
	}{
		{"an error", []string{"<?xml version='1.0'?>", "<Err", "or><Code>SlowDown</Code></Error>"},
			30 * time.Second, awsretry.StopQuota},
		{"a result", []string{"<?xml version='1.0'?>", "<C", "opyObjectResult>"}, 20 * time.Second, ""},
		{"no document", []string{"{}", "{}"}, 10 * time.Second, ""},
	} {
		for _, coding := range codings {
			inBubble(t, tt.name+"/"+coding, func(t *testing.T) {
				pieces := httpfake.Compressed(coding, tt.parts...)
				tr := unpaid(func(req *http.Request) (*http.Response, error) {
					return httpfake.Response(req, 200, httpfake.NewBody(arriving(pieces)),
						"Content-Encoding", httpfake.ContentEncoding(coding)), nil
				})
				req := httpfake.Request(t, within(t, time.Hour), "PUT", nil)
				req.Header.Set("X-Amz-Copy-Source", "bucket/key")
				r := send(tr, req)
				r.want(t, 200, tt.stop, tt.took)
				r.wantBody(t, strings.Join(pieces, ""))
			})
		}
	}
}
