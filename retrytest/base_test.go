package retrytest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	. "example.com/awsretry/retrytest"
)

// A step becomes the same response through RoundTrip and through a server.
func TestResponses(t *testing.T) {
	for name, tt := range map[string]struct {
		method string
		step   Step
		status string
		body   string
		length int64
		broken bool
	}{
		"a body": {"GET", Step{Status: 200, Body: "hello", Header: http.Header{"content-type": {"text/x"}}}, "200 OK", "hello", 5, false},
		"none":   {"GET", Step{Status: 200}, "200 OK", "", 0, false},
		"a code": {"GET", Step{Status: 400, Code: "ThrottlingException", Body: "{}"}, "400 Bad Request", "{}", 2, false},
		"HEAD":   {"HEAD", Step{Status: 200, Body: "hello"}, "200 OK", "", 5, false},
		"204":    {"GET", Step{Status: 204, Body: "hello"}, "204 No Content", "", 0, false},
		"529":    {"GET", Step{Status: 529}, "529", "", 0, false},
		"broken": {"GET", Step{Status: 200, Body: "half", Err: io.ErrUnexpectedEOF}, "200 OK", "half", -1, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(&Base{Script: []Step{tt.step}})
			defer server.Close()
			for via, base := range map[string]http.RoundTripper{
				"base": &Base{Script: []Step{tt.step}}, "server": http.DefaultTransport,
			} {
				req, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL, nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := base.RoundTrip(req)
				if err != nil {
					t.Fatal(via, err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if got, _, _ := strings.Cut(resp.Status, " status code"); strings.TrimSpace(got) != tt.status || string(body) != tt.body {
					t.Errorf("%s: %q with %q", via, resp.Status, body)
				}
				if (err != nil) != tt.broken || tt.broken && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%s: the body ends with %v", via, err)
				}
				if resp.ContentLength != tt.length && !(via == "server" && tt.method == "HEAD") && tt.status != "204 No Content" {
					t.Errorf("%s: the length is %d, want %d", via, resp.ContentLength, tt.length)
				}
				if resp.Header.Get("X-Amzn-ErrorType") != tt.step.Code || resp.Request != req {
					t.Errorf("%s: the code is %q", via, resp.Header.Get("X-Amzn-ErrorType"))
				}
				if len(tt.step.Header) > 0 && resp.Header.Get("Content-Type") != "text/x" {
					t.Errorf("%s: %v", via, resp.Header)
				}
			}
		})
	}
}

// What was sent is recorded with its attempt and its time, whatever happens to
// the request after that.
func TestSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &Base{Script: []Step{{Err: io.ErrUnexpectedEOF}, {Status: 503, Delay: time.Second}, {Status: 200}}}
		begin := time.Now()
		tr := &awsretry.Transport{
			Base: base, Backoff: awsretry.Exponential{Initial: 3 * time.Second, Jitter: awsretry.NoJitter},
			Prepare: func(req *http.Request, n int) error {
				req.Header.Set("X-Signature", fmt.Sprint("of ", n))
				return nil
			},
		}
		req := httpfake.Post(t, "http://service.example/path?q=1", "order")
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		var want []Request
		for n, after := range []time.Duration{0, 3 * time.Second, 10 * time.Second} {
			want = append(want, Request{
				Attempt: n + 1, Time: begin.Add(after), Method: "POST", URL: "http://service.example/path?q=1",
				Header: http.Header{"X-Signature": {fmt.Sprint("of ", n+1)}}, Body: "order",
			})
		}
		got := base.Sent()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		got[0].Body = "changed"
		if base.Sent()[0].Body != "order" {
			t.Error("Sent returns its own slice")
		}
	})
}

// What was sent stays as it was.
func TestSentIsACopy(t *testing.T) {
	base := Statuses(200)
	req := httpfake.Request(t, t.Context(), "GET", nil)
	req.Header.Set("X-Version", "1")
	if _, err := base.RoundTrip(req); err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Version", "2")
	if got := base.Sent()[0].Header.Get("X-Version"); got != "1" {
		t.Errorf("sent version %s", got)
	}
}

func TestSentToAServer(t *testing.T) {
	base := Statuses(503, 201)
	server := httptest.NewTLSServer(base)
	defer server.Close()
	client := &http.Client{Transport: NoWait(&awsretry.Transport{Base: server.Client().Transport})}
	resp, err := client.Post(server.URL+"/a?b=c", "text/plain", strings.NewReader("order"))
	if err != nil || resp.StatusCode != 201 {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	sent := base.Sent()
	if len(sent) != 2 || sent[1].Body != "order" || sent[1].URL != server.URL+"/a?b=c" || sent[1].Attempt != 0 ||
		sent[1].Header.Get("Content-Type") != "text/plain" {
		t.Errorf("%+v", sent)
	}
}

// A script that is not valid is refused, and one that has run out, without a
// retry.
func TestScriptErrors(t *testing.T) {
	const allowed = "it must be from 200 to 999, or 0 with an Err"
	for _, tt := range []struct {
		script []Step
		want   string
	}{
		{nil, "there is no step for request 1, GET http://service.example/path; the script has 0"},
		{[]Step{{Status: 503}}, "there is no step for request 2, GET http://service.example/path; the script has 1"},
		{[]Step{{Status: 503}, {}}, "Script[1].Status is 0; " + allowed},
		{[]Step{{Status: 99}}, "Script[0].Status is 99; " + allowed},
		{[]Step{{Status: 1000}}, "Script[0].Status is 1000; " + allowed},
		{[]Step{{Status: -1}}, "Script[0].Status is -1; " + allowed},
		{[]Step{{Status: 100}}, "Script[0].Status is 100; " + allowed},
		{[]Step{{Err: io.EOF, Body: "lost"}}, "Script[0].Status is 0; it must be from 200 to 999 with a Code, a Header or a Body"},
		{[]Step{{Status: 200, Delay: -1}}, "Script[0].Delay is -1ns; it must be 0 or more"},
	} {
		base := &Base{Script: tt.script}
		body := httpfake.NewBody(strings.NewReader("x"))
		req := httpfake.Request(t, t.Context(), "GET", body)
		resp, err := NoWait(&awsretry.Transport{Base: base}).RoundTrip(req)
		var e *awsretry.Error
		if resp != nil || !errors.As(err, &e) || e.Stop != awsretry.StopPermanent || e.Err.Error() != "retrytest: "+tt.want {
			t.Errorf("%v, %v; want %s", resp, err, tt.want)
		}
		if body.Closes() != 1 {
			t.Errorf("%s: the body was closed %d times", tt.want, body.Closes())
		}
		server := httptest.NewServer(&Base{Script: tt.script})
		resp, err = (&http.Client{Transport: NoWait(&awsretry.Transport{})}).Get(server.URL + "/path")
		if err != nil {
			t.Fatal(err)
		}
		want := "retrytest: " + strings.ReplaceAll(tt.want, "http://service.example", server.URL) + "\n"
		if got := httpfake.ReadAll(t, resp); got != want || resp.StatusCode != 501 {
			t.Errorf("%d with %q, want 501 with %q", resp.StatusCode, got, want)
		}
		server.Close()
	}
}

// A context that has ended, or ends while the request arrives or is delayed,
// ends it, and its body is closed once.
func TestContextEnds(t *testing.T) {
	cause := errors.New("enough")
	for name, tt := range map[string]struct {
		after time.Duration // until the context ends
		body  func() io.Reader
		sent  int
	}{
		"before":              {0, func() io.Reader { return strings.NewReader("x") }, 0},
		"in a Read":           {time.Second, func() io.Reader { r, _ := io.Pipe(); return r }, 0},
		"in the delay":        {time.Second, func() io.Reader { return strings.NewReader("x") }, 1},
		"in it, without body": {time.Second, func() io.Reader { return nil }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := &Base{Script: []Step{{Status: 200, Delay: time.Hour}}}
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(tt.after, func() { cancel(cause) })
				if tt.after == 0 {
					cancel(cause)
				}
				var body *httpfake.Body
				req := httpfake.Request(t, ctx, "POST", nil)
				if r := tt.body(); r != nil {
					body = httpfake.NewBody(r)
					req.Body = body
				}
				begin := time.Now()
				resp, err := base.RoundTrip(req)
				if resp != nil || !errors.Is(err, cause) || time.Since(begin) != tt.after {
					t.Errorf("%v, %v after %v", resp, err, time.Since(begin))
				}
				if body != nil && body.Closes() != 1 {
					t.Errorf("the body was closed %d times", body.Closes())
				}
				if len(base.Sent()) != tt.sent {
					t.Errorf("%d requests were sent", len(base.Sent()))
				}
			})
		})
	}
}

// A client that leaves ends the delay of a server.
func TestClientLeavesServer(t *testing.T) {
	handled := make(chan any, 1)
	base := &Base{Script: []Step{{Status: 200, Delay: time.Hour}}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handled <- httpfake.Recovered(func() { base.ServeHTTP(w, r) })
	}))
	defer server.Close()
	client := &http.Client{Timeout: 50 * time.Millisecond}
	if resp, err := client.Get(server.URL); err == nil {
		t.Error(resp.Status)
	}
	if got := <-handled; got != http.ErrAbortHandler {
		t.Errorf("the handler ended with %v", got)
	}
}

// A body whose Read fails is an error, and nothing was sent.
func TestFailingRequestBody(t *testing.T) {
	base, broken := Statuses(200), errors.New("broken")
	body := httpfake.NewBody(httpfake.ReadFunc(func([]byte) (int, error) { return 0, broken }))
	resp, err := base.RoundTrip(httpfake.Request(t, t.Context(), "POST", body))
	if resp != nil || !errors.Is(err, broken) || body.Closes() != 1 || len(base.Sent()) != 0 {
		t.Errorf("%v, %v, %d closes, %d sent", resp, err, body.Closes(), len(base.Sent()))
	}
}

// Each of many requests at a time gets its own step.
func TestConcurrentUse(t *testing.T) {
	const n = 100
	base := new(Base)
	for i := range n {
		base.Script = append(base.Script, Step{Status: 200 + i})
	}
	var (
		running sync.WaitGroup
		mu      sync.Mutex
		got     = map[int]bool{}
	)
	for range n {
		running.Go(func() {
			resp, err := base.RoundTrip(httptest.NewRequest("PUT", "http://service.example/", bytes.NewReader([]byte("x"))))
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
			base.Sent()
			mu.Lock()
			defer mu.Unlock()
			got[resp.StatusCode] = true
		})
	}
	if running.Wait(); len(got) != n || len(base.Sent()) != n {
		t.Errorf("%d steps were taken by %d requests", len(got), len(base.Sent()))
	}
}

// NoWait leaves no delay, whatever the service and the settings ask for.
func TestNoWait(t *testing.T) {
	for name, tr := range map[string]*awsretry.Transport{
		"defaults": {},
		"2026":     {Revision: awsretry.Revision2026},
		"legacy":   {Mode: awsretry.Legacy},
		"own":      {Backoff: awsretry.Decorrelated{Initial: time.Hour, Max: time.Hour}, RetryAfterSpread: time.Hour},
		"shared":   {ShareRetryAfter: true},
		"a hook": {RetryAfter: func(*http.Response, []byte) (time.Duration, bool) {
			return time.Hour, true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr.Base = &Base{Script: []Step{
					{Status: 429, Header: http.Header{"Retry-After": {"3600"}}}, {Status: 503}, {Status: 200},
				}}
				begin := time.Now()
				if got := NoWait(tr); got != tr {
					t.Error("NoWait returns another Transport")
				}
				resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "GET", nil))
				if err != nil || resp.StatusCode != 200 || time.Since(begin) != 0 {
					t.Errorf("%v, %v after %v", resp, err, time.Since(begin))
				}
			})
		})
	}
}
