package retryablehttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

// A peer is a service in memory. It responds to its nth request, from 1.
type peer struct {
	respond func(n int, req *http.Request) (*http.Response, error)
	sent    []*http.Request
	at      []time.Time
}

func (p *peer) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}
	p.sent, p.at = append(p.sent, req), append(p.at, time.Now())
	return p.respond(len(p.sent), req)
}

// statuses is a peer that responds with these, and then with the last. The response
// after a 429 or 503 is asked for in 5 s.
func statuses(all ...int) *peer {
	return &peer{respond: func(n int, req *http.Request) (*http.Response, error) {
		return reply(req, all[min(n, len(all))-1], "", "Retry-After", "5"), nil
	}}
}

func reply(req *http.Request, status int, body string, header ...string) *http.Response {
	resp := &http.Response{
		StatusCode: status, Status: fmt.Sprint(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
	for i := 0; i < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
	}
	return resp
}

// over returns a silent Client that sends to p.
func over(p *peer) *Client {
	c := newClient()
	c.HTTPClient = &http.Client{Transport: p}
	return c
}

const place = "http://service.test/path"

func get(t *testing.T) *Request {
	t.Helper()
	return request(t, "GET", place, nil).WithContext(t.Context())
}

// wantSent fails unless p got that many requests.
func (p *peer) wantSent(t *testing.T, want int) {
	t.Helper()
	if len(p.sent) != want {
		t.Errorf("%d requests were sent, want %d", len(p.sent), want)
	}
}

// wantError fails unless Do returns an error that has all of these, and sends
// nothing.
func wantError(t *testing.T, c *Client, p *peer, req *Request, want ...string) {
	t.Helper()
	before := len(p.sent)
	_, err := c.Do(req)
	for _, part := range want {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want %q", err, part)
		}
	}
	p.wantSent(t, before)
}

// ends returns how many attempts Transport makes without Do.
func ends(t *testing.T, c *Client, p *peer) int {
	t.Helper()
	before := len(p.sent)
	resp, err := c.Transport().RoundTrip(get(t).Request)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return len(p.sent) - before
}

// settings has a test for each field of Transport, in virtual time: it works with
// Do, or is an error that names it.
var settings = map[string]func(t *testing.T){
	"Base": func(t *testing.T) {
		p := statuses(200)
		c := over(p)
		c.Transport().Base = http.DefaultTransport
		wantError(t, c, p, get(t), "Transport().Base is a *http.Transport", "HTTPClient")
	},
	"Mode": func(t *testing.T) {
		p := statuses(429, 200)
		c := over(p)
		c.Transport().Mode = awsretry.Adaptive
		do(t, c, get(t))
		if s, _ := c.Transport().State("service.test"); !s.Limited {
			t.Errorf("the send rate is not limited: %+v", s)
		}
	},
	"Revision": func(t *testing.T) {
		var left []int
		for _, revision := range []awsretry.Revision{awsretry.Classic, awsretry.Revision2026} {
			c := over(statuses(500))
			c.Transport().Revision = revision
			c.Do(get(t))
			s, _ := c.Transport().State("service.test")
			left = append(left, s.Tokens)
		}
		if left[0] == left[1] {
			t.Errorf("%d tokens are left by both revisions", left)
		}
	},
	"MaxAttempts": func(t *testing.T) {
		p := statuses(500)
		c := over(p)
		c.Transport().MaxAttempts, c.RetryMax = 2, 6
		if n := ends(t, c, p); n != 2 {
			t.Errorf("%d attempts without Do", n)
		}
		if _, err := c.Do(get(t)); err == nil {
			t.Error("no error")
		}
		p.wantSent(t, 2+7)
	},
	"AttemptTimeout": func(t *testing.T) {
		p := &peer{respond: func(n int, req *http.Request) (*http.Response, error) {
			if n == 1 {
				<-req.Context().Done()
				return nil, context.Cause(req.Context())
			}
			return reply(req, 200, "late"), nil
		}}
		c := over(p)
		c.Transport().AttemptTimeout = time.Minute
		if got := do(t, c, get(t)); got != "late" || p.at[1].Sub(p.at[0]) < time.Minute {
			t.Errorf("%q at %v", got, p.at)
		}
	},
	"StallTimeout": func(t *testing.T) {
		p := &peer{respond: func(_ int, req *http.Request) (*http.Response, error) {
			resp := reply(req, 200, "")
			r, w := io.Pipe()
			context.AfterFunc(req.Context(), func() { w.CloseWithError(context.Cause(req.Context())) })
			resp.Body, resp.ContentLength = r, -1
			return resp, nil
		}}
		c := over(p)
		c.Transport().StallTimeout = time.Minute
		resp, err := c.Do(get(t))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, err = resp.Body.Read(make([]byte, 1))
		if timeout := (interface{ Timeout() bool })(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("Read returns %v", err)
		}
	},
	"Policy": func(t *testing.T) {
		p := statuses(500)
		c := over(p)
		c.Transport().Policy = func(*awsretry.Attempt) awsretry.Class { return awsretry.Permanent }
		c.RetryMax = 1
		if n := ends(t, c, p); n != 1 {
			t.Errorf("%d attempts without Do", n)
		}
		c.Do(get(t))
		p.wantSent(t, 1+2)
	},
	"Backoff": func(t *testing.T) {
		p := statuses(500, 500, 500, 500, 200)
		c := over(p)
		c.Transport().Backoff = awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return time.Hour })
		if n := ends(t, c, p); n != 3 || p.at[1].Sub(p.at[0]) != time.Hour {
			t.Errorf("%d attempts without Do at %v", n, p.at)
		}
		do(t, c, get(t))
		if p.at[4].Sub(p.at[3]) > time.Second {
			t.Errorf("Do's attempts are at %v", p.at[3:])
		}
	},
	"MaxRetryAfter": func(t *testing.T) {
		p := statuses(503, 200)
		c := over(p)
		c.Backoff = func(time.Duration, time.Duration, int, *http.Response) time.Duration { return 0 }
		c.Transport().MaxRetryAfter = 10 * time.Second
		do(t, c, get(t))
		if d := p.at[1].Sub(p.at[0]); d < 5*time.Second {
			t.Errorf("the retry is %v after the 503", d)
		}
		p = statuses(503)
		c = over(p)
		c.Transport().MaxRetryAfter = time.Second
		if _, err := c.Do(get(t)); !errors.Is(err, errRetryAfter) {
			t.Error(err)
		}
		p.wantSent(t, 1)
	},
	"Quota": func(t *testing.T) {
		p := statuses(500)
		c := over(p)
		c.Transport().Quota.Capacity = 12
		if _, err := c.Do(get(t)); !errors.Is(err, awsretry.ErrQuotaExceeded) {
			t.Error(err)
		}
		p.wantSent(t, 1+2)
	},
	"RateLimit": func(t *testing.T) {
		p := statuses(429)
		c := over(p)
		c.Backoff = func(time.Duration, time.Duration, int, *http.Response) time.Duration { return 0 }
		c.Transport().Mode, c.Transport().RateLimit.FailFast = awsretry.Adaptive, true
		if _, err := c.Do(get(t)); !errors.Is(err, awsretry.ErrRateLimited) {
			t.Error(err)
		}
	},
	"Partition": func(t *testing.T) {
		c := over(statuses(200))
		c.Transport().Partition = func(req *http.Request) string { return "of " + req.URL.Path }
		do(t, c, get(t))
		if _, ok := c.Transport().State("of /path"); !ok {
			t.Error("the partition is not there")
		}
	},
	"MaxPartitions": func(t *testing.T) {
		c := over(statuses(200))
		c.Transport().MaxPartitions = 1
		for _, host := range []string{"a.test", "b.test"} {
			do(t, c, request(t, "GET", "http://"+host, nil))
		}
		n := 0
		for range c.Transport().Partitions() {
			n++
		}
		if n != 1 {
			t.Errorf("there are %d partitions", n)
		}
	},
	"MaxBodyBuffer": func(t *testing.T) {
		p := statuses(500, 200)
		c := over(p)
		c.Transport().MaxBodyBuffer = 3
		body := iotest.OneByteReader(strings.NewReader("hello"))
		if _, err := c.Do(request(t, "PUT", place, body)); !errors.Is(err, errBody) {
			t.Error(err)
		}
		p.wantSent(t, 1)
	},
	"Prepare":  testPrepare,
	"LongPoll": testLongPoll,
	"SDKHeaders": func(t *testing.T) {
		p := statuses(500, 200)
		c := over(p)
		c.Transport().SDKHeaders = true
		do(t, c, get(t))
		for i, req := range p.sent {
			if got, want := req.Header.Get("Amz-Sdk-Request"), fmt.Sprintf("attempt=%d; max=5", i+1); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		p.wantSent(t, 2)
	},
	"NestedRetries": func(t *testing.T) {
		for nested, want := range map[bool]int{false: 1, true: 2} {
			p := statuses(500, 200)
			c := over(p)
			c.Transport().NestedRetries = nested
			req := get(t)
			req.Header.Set("Amz-Sdk-Request", "attempt=1; max=3")
			req.Header.Set("Amz-Sdk-Invocation-Id", "1")
			c.Do(req)
			p.wantSent(t, want)
		}
	},
	"RetryAfterSpread": func(t *testing.T) {
		p := statuses(503, 200)
		c := over(p)
		c.Transport().RetryAfterSpread = time.Second
		wantError(t, c, p, get(t), "RetryAfterSpread is 1s", "MaxRetryAfter must be 0 or above")
		c = over(p)
		c.Transport().RetryAfterSpread, c.Transport().MaxRetryAfter = time.Hour, 0
		do(t, c, get(t))
		if d := p.at[1].Sub(p.at[0]); d <= 5*time.Second || d > time.Hour+5*time.Second {
			t.Errorf("the retry is %v after the 503", d)
		}
	},
	"ShareRetryAfter": func(t *testing.T) {
		p := statuses(503, 200)
		c := over(p)
		c.Transport().ShareRetryAfter = true
		wantError(t, c, p, get(t), "ShareRetryAfter is true", "MaxRetryAfter is -1", "MaxRetryAfter must be 0 or above")
		c = over(p)
		c.RetryMax = 0
		c.Transport().ShareRetryAfter, c.Transport().MaxRetryAfter = true, 0
		c.Do(get(t))
		do(t, c, get(t))
		if d := p.at[1].Sub(p.at[0]); d < 5*time.Second {
			t.Errorf("another request is sent %v after the 503", d)
		}
	},
	"RetryAfter": func(t *testing.T) {
		p := statuses(503, 200)
		c := over(p)
		hour := func(*http.Response, []byte) (time.Duration, bool) { return time.Hour, true }
		c.Transport().RetryAfter = hour
		wantError(t, c, p, get(t), "RetryAfter is set", "MaxRetryAfter must be 0 or above")
		c = over(p)
		c.Transport().RetryAfter, c.Transport().MaxRetryAfter = hour, time.Hour
		do(t, c, get(t))
		if d := p.at[1].Sub(p.at[0]); d < time.Hour {
			t.Errorf("the retry is %v after the 503", d)
		}
	},
	"Peek": func(t *testing.T) {
		p := statuses(200)
		c := over(p)
		c.Transport().Peek = func(*http.Response, []byte) bool { return true }
		wantError(t, c, p, get(t), "Transport().Peek is set; it must be nil")
	},
	"IdempotencyKey": func(t *testing.T) {
		p := statuses(500, 200)
		c := over(p)
		c.Transport().IdempotencyKey = awsretry.RandomKey
		do(t, c, request(t, "POST", place, []byte("x")))
		if key := p.sent[0].Header.Get("Idempotency-Key"); key == "" || p.sent[1].Header.Get("Idempotency-Key") != key {
			t.Errorf("%v", p.sent[1].Header)
		}
	},
	"KeepConnections": func(t *testing.T) { // HTTPClient keeps them without it, too
		p := statuses(500, 200)
		c := over(p)
		c.Transport().KeepConnections = true
		do(t, c, get(t))
		p.wantSent(t, 2)
	},
	"Resume": testResume,
	"Shared": func(t *testing.T) {
		p := statuses(200)
		c := over(p)
		c.Transport().Shared = fleet{err: errors.New("no fleet today")}
		wantError(t, c, p, get(t), "no fleet today")
		c = over(p)
		c.Transport().Shared = fleet{}
		defer func() {
			if recover() == nil {
				t.Error("the fleet is not joined")
			}
		}()
		c.Do(get(t)) // of which nothing implements Join
	},
	"Observe": func(t *testing.T) {
		var stops []awsretry.Stop
		c := over(statuses(500, 200))
		c.Transport().Observe = func(a awsretry.Attempt) { stops = append(stops, a.Stop) }
		do(t, c, get(t))
		if want := []awsretry.Stop{"", awsretry.StopSuccess}; !slices.Equal(stops, want) {
			t.Errorf("%q", stops)
		}
	},
}

// A fleet is a Shared that cannot be joined.
type fleet struct {
	awsretry.Shared
	err error
}

func (f fleet) Validate(awsretry.Mode) error { return f.err }

func TestSettings(t *testing.T) {
	t.Parallel()
	fields := reflect.TypeFor[awsretry.Transport]()
	n := 0
	for i := range fields.NumField() {
		field := fields.Field(i)
		if !field.IsExported() {
			continue
		}
		n++
		test := settings[field.Name]
		if test == nil {
			t.Errorf("%s has no test", field.Name)
			continue
		}
		t.Run(field.Name, func(t *testing.T) { synctest.Test(t, test) })
	}
	if n != len(settings) {
		t.Errorf("%d fields and %d tests", n, len(settings))
	}
}

// What Prepare changes is sent, also in the place of what the caller and the hooks
// set.
func testPrepare(t *testing.T) {
	p := statuses(500, 500, 200)
	c := over(p)
	c.Transport().Prepare = func(req *http.Request, n int) error {
		req.Header.Set("Authorization", fmt.Sprint("attempt ", n))
		req.Header.Del("X-Debug")
		req.URL.Path = fmt.Sprint("/attempt/", n)
		return nil
	}
	c.RequestLogHook = func(_ Logger, req *http.Request, n int) { req.Header.Set("X-Hook", fmt.Sprint(n)) }
	c.PrepareRetry = func(req *http.Request) error { req.Header.Set("Authorization", "of the hook"); return nil }
	req := get(t)
	req.Header.Set("Authorization", "stale")
	req.Header.Set("X-Debug", "yes")
	req.Header.Set("X-Own", "yes")
	do(t, c, req)
	p.wantSent(t, 3)
	for i, sent := range p.sent {
		want := http.Header{"Authorization": {fmt.Sprint("attempt ", i+1)}, "X-Hook": {fmt.Sprint(i)}, "X-Own": {"yes"}}
		if !reflect.DeepEqual(sent.Header, want) || sent.URL.Path != fmt.Sprint("/attempt/", i+1) {
			t.Errorf("attempt %d: %s %v, want %v", i+1, sent.URL, sent.Header, want)
		}
	}

	p = statuses(500)
	c = over(p)
	unsigned := errors.New("no credentials")
	c.Transport().Prepare = func(_ *http.Request, n int) error {
		if n == 2 {
			return unsigned
		}
		return nil
	}
	if _, err := c.Do(get(t)); !errors.Is(err, unsigned) {
		t.Errorf("got %v, want %v", err, unsigned)
	}
	p.wantSent(t, 1)
}

// If the retry tokens are used up, Do returns after the delay, so that the caller's
// loop does not spin.
func testLongPoll(t *testing.T) {
	p := statuses(500)
	c := over(p)
	c.RetryWaitMin, c.RetryWaitMax = time.Minute, time.Minute
	c.Transport().Quota.Capacity = 1
	c.Transport().LongPoll = func(*http.Request) bool { return true }
	begin := time.Now()
	if _, err := c.Do(get(t)); !errors.Is(err, awsretry.ErrQuotaExceeded) || time.Since(begin) < time.Minute {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	p.wantSent(t, 1)
}

// storage is a peer that serves ranges of text, in responses that break off after
// some bytes, all but the last.
func storage(text string, breaks ...int) *peer {
	return &peer{respond: func(n int, req *http.Request) (*http.Response, error) {
		first, last, status := 0, len(text)-1, 200
		if asked := req.Header.Get("Range"); asked != "" {
			status = 206
			fmt.Sscanf(asked, "bytes=%d-%d", &first, &last)
		}
		resp := reply(req, status, text[first:last+1], "ETag", `"v1"`)
		if status == 206 {
			resp.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(text)))
		}
		if n <= len(breaks) {
			begin := strings.NewReader(text[first:min(first+breaks[n-1], last+1)])
			resp.Body = io.NopCloser(io.MultiReader(begin, iotest.ErrReader(io.ErrUnexpectedEOF)))
		}
		return resp, nil
	}}
}

// A body that breaks off is continued, if CheckRetry says so.
func testResume(t *testing.T) {
	const object = "abcdefghijklmnopqrstuvwxyz"
	for _, tt := range []struct{ asked, want string }{{"", object}, {"bytes=3-20", object[3:21]}, {"bytes=5-", object[5:]}} {
		p := storage(object, 4, 5)
		c := over(p)
		c.Transport().Resume = true
		var broken, hooked, prepared int
		c.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (bool, error) {
			if err != nil {
				broken++
			}
			return DefaultRetryPolicy(ctx, resp, err)
		}
		c.RequestLogHook = func(Logger, *http.Request, int) { hooked++ }
		c.PrepareRetry = func(*http.Request) error { prepared++; return nil }
		c.RetryMax = 1 // in a row without a byte
		req := get(t)
		if tt.asked != "" {
			req.Header.Set("Range", tt.asked)
		}
		before := req.Request
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if got := text(t, resp); got != tt.want || broken != 2 || hooked != 3 || prepared != 2 {
			t.Errorf("%q: got %q, want %q; %d breaks, %d and %d hooks", tt.asked, got, tt.want, broken, hooked, prepared)
		}
		if req.Request != before || req.Header.Get("Range") != tt.asked {
			t.Error("the caller's request is changed")
		}
		p.wantSent(t, 3)
	}

	p := storage(object, 4)
	c := over(p)
	c.Transport().Resume = true
	c.CheckRetry = func(_ context.Context, _ *http.Response, err error) (bool, error) { return false, nil }
	resp, err := c.Do(get(t))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(data) != object[:4] || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("without a retry: %q, %v", data, err)
	}
	p.wantSent(t, 1)

	req := get(t)
	req.SetResponseHandler(func(*http.Response) error { return nil })
	wantError(t, c, p, req, "Transport().Resume is true; it must be false", "ResponseHandlerFunc")
}
