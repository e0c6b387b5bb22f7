package retryablehttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
)

// Every kind of body is sent again, with its length where that is known.
func TestBodies(t *testing.T) {
	t.Parallel()
	const content = "hello, world"
	path := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	moved := strings.NewReader(content)
	moved.Seek(3, io.SeekStart)
	read := bytes.NewReader([]byte("read: " + content))
	read.Seek(6, io.SeekStart)
	for name, tt := range map[string]struct {
		body   any
		length int64
	}{
		"nil":                     {nil, 0},
		"http.NoBody":             {http.NoBody, 0},
		"bytes":                   {[]byte(content), 12},
		"buffer":                  {bytes.NewBufferString(content), 12},
		"a reader that was moved": {moved, 12},
		"a reader of bytes, read": {read, 12},
		"file":                    {file, 12},
		"seeker":                  {struct{ io.ReadSeeker }{strings.NewReader(content)}, 12},
		"reader":                  {iotest.OneByteReader(strings.NewReader(content)), -1},
		"reader with a length":    {bytesLeft{strings.NewReader(content)}, 12},
		"ReaderFunc":              {ReaderFunc(func() (io.Reader, error) { return strings.NewReader(content), nil }), 12},
		"func":                    {func() (io.Reader, error) { return iotest.OneByteReader(strings.NewReader(content)), nil }, -1},
		"empty":                   {[]byte{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, 500, 503, 200)
			do(t, newClient(), request(t, "PUT", s.URL, tt.body))
			want := content
			if tt.length == 0 {
				want = ""
			}
			if !slices.Equal(s.bodies, []string{want, want, want}) {
				t.Errorf("sent %q", s.bodies)
			}
			for _, r := range s.requests {
				if r.ContentLength != tt.length {
					t.Errorf("Content-Length %d, want %d", r.ContentLength, tt.length)
				}
			}
		})
	}
}

// bytesLeft is an io.Reader with a length, and nothing else.
type bytesLeft struct{ r *strings.Reader }

func (b bytesLeft) Read(p []byte) (int, error) { return b.r.Read(p) }

func (b bytesLeft) Len() int { return b.r.Len() }

func TestBodiesThatAreRefused(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, body := range []any{42, "text", func() {}} {
		if _, err := NewRequest("PUT", "http://a.test", body); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("is a %T; it must be", body)) {
			t.Errorf("%T: %v", body, err)
		}
	}
	if _, err := NewRequest("PUT", "http://a.test", ReaderFunc(func() (io.Reader, error) { return nil, boom })); !errors.Is(err, boom) {
		t.Errorf("a ReaderFunc that fails: %v", err)
	}
}

// A request is sent by several Do, after changes of its body.
func TestRequestIsUsedAgain(t *testing.T) {
	t.Parallel()
	s := newServer(t, 200)
	c, req := newClient(), request(t, "PUT", s.URL, []byte("one"))
	for _, body := range []any{[]byte("one"), strings.NewReader("two"), nil} {
		if err := req.SetBody(body); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			do(t, c, req)
		}
	}
	if want := []string{"one", "one", "two", "two", "", ""}; !slices.Equal(s.bodies, want) {
		t.Errorf("sent %q, want %q", s.bodies, want)
	}
}

// BodyBytes and WriteTo leave the body in place.
func TestBodyBytes(t *testing.T) {
	t.Parallel()
	s := newServer(t, 200)
	plain, _ := http.NewRequest("PUT", s.URL, iotest.OneByteReader(strings.NewReader("hello")))
	wrapped, _ := FromRequest(plain)
	for name, req := range map[string]*Request{
		"bytes":   request(t, "PUT", s.URL, []byte("hello")),
		"reader":  request(t, "PUT", s.URL, iotest.OneByteReader(strings.NewReader("hello"))),
		"wrapped": wrapped,
	} {
		data, err := req.BodyBytes()
		if err != nil || string(data) != "hello" {
			t.Errorf("%s: BodyBytes %q, %v", name, data, err)
		}
		data[0] = 'x' // a copy
		var b bytes.Buffer
		if n, err := req.WriteTo(&b); err != nil || n != 5 || b.String() != "hello" {
			t.Errorf("%s: WriteTo %d %q %v", name, n, b.String(), err)
		}
		do(t, newClient(), req)
	}
	if want := []string{"hello", "hello", "hello"}; !slices.Equal(s.bodies, want) {
		t.Errorf("sent %q", s.bodies)
	}
	none := request(t, "GET", s.URL, nil)
	if data, err := none.BodyBytes(); data != nil || err != nil {
		t.Errorf("no body: %q, %v", data, err)
	}
}

// What RequestLogHook and PrepareRetry set in the headers is sent, in each attempt.
// An error of PrepareRetry ends the request.
func TestRequestLogHook(t *testing.T) {
	t.Parallel()
	s := newServer(t, 500, 500)
	c := newClient()
	boom := errors.New("boom")
	c.RequestLogHook = func(l Logger, req *http.Request, retry int) {
		if l != nil {
			t.Errorf("the logger is %v", l)
		}
		if retry == 0 {
			req.Header.Set("First", "yes")
		}
		req.Header.Set("Retry", fmt.Sprint(retry))
	}
	c.PrepareRetry = func(req *http.Request) error {
		if req.Header.Get("Signature") != "" {
			return boom
		}
		req.Header.Set("Signature", "yes")
		return nil
	}
	_, err := c.Do(request(t, "PUT", s.URL, []byte("hello")))
	if !errors.Is(err, boom) || !strings.Contains(err.Error(), "after 2 attempt(s)") || s.seen() != 2 {
		t.Errorf("after %d: %v", s.seen(), err)
	}
	for i, r := range s.requests {
		if r.Header.Get("Retry") != fmt.Sprint(i) || r.Header.Get("First") != "yes" ||
			r.Header.Get("Signature") != []string{"", "yes"}[i] {
			t.Errorf("attempt %d has %v", i, r.Header)
		}
	}
}

// A recording is a Logger, or with levels a LeveledLogger.
type recording struct {
	mu    sync.Mutex
	lines []string
}

func (r *recording) Printf(format string, values ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, values...))
}

type leveled struct{ recording }

func (l *leveled) Error(msg string, kv ...any) { l.Printf("error: %s %v", msg, kv) }
func (l *leveled) Info(msg string, kv ...any)  { l.Printf("info: %s %v", msg, kv) }
func (l *leveled) Debug(msg string, kv ...any) { l.Printf("debug: %s %v", msg, kv) }
func (l *leveled) Warn(msg string, kv ...any)  { l.Printf("warn: %s %v", msg, kv) }

func TestLogs(t *testing.T) {
	t.Parallel()
	s := newServer(t, 500, 200)
	c := newClient()
	plain := new(recording)
	c.Logger = plain
	c.ResponseLogHook = func(l Logger, resp *http.Response) { l.Printf("hook %d", resp.StatusCode) }
	do(t, c, request(t, "GET", s.URL+"/path?secret=1", nil))
	want := []string{
		"[DEBUG] GET " + s.URL + "/path", "hook 500",
		"[DEBUG] GET " + s.URL + "/path (status: 500): retrying in 1ms (4 left)",
		"[DEBUG] GET " + s.URL + "/path", "hook 200",
	}
	if !slices.Equal(plain.lines, want) {
		t.Errorf("%q\nwant %q", plain.lines, want)
	}
	l := new(leveled)
	c.Logger, c.ResponseLogHook, c.RetryMax = l, nil, 1
	c.RequestLogHook = func(l Logger, _ *http.Request, n int) { l.Printf("hook %d", n) }
	if _, err := c.Get("http://127.0.0.1:1/?secret=1"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	text := strings.Join(l.lines, "\n")
	for _, want := range []string{
		"debug: performing request [method GET url http://127.0.0.1:1/]", "info: hook 0", "info: hook 1", "error: request failed [error ",
		"debug: retrying request [request GET http://127.0.0.1:1/ timeout 1ms remaining 1]",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "secret") {
		t.Errorf("a query is logged:\n%s", text)
	}
}

// A CheckRedirect that fails gives both a response and an error.
func TestCheckRedirect(t *testing.T) {
	t.Parallel()
	s := newServer(t, 302)
	s.header = http.Header{"Location": {"/other"}}
	boom := errors.New("boom")
	c := newClient()
	c.HTTPClient = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return boom }}
	c.RetryMax = 0
	c.ErrorHandler = PassthroughErrorHandler
	resp, err := c.Get(s.URL)
	if !errors.Is(err, boom) || resp == nil || resp.StatusCode != 302 {
		t.Errorf("%v, %v", resp, err)
	}
}

// The zero Client sends once.
func TestZeroClient(t *testing.T) {
	t.Parallel()
	s := newServer(t, 500)
	var c Client
	if _, err := c.Get(s.URL); err == nil || s.seen() != 1 {
		t.Errorf("after %d: %v", s.seen(), err)
	}
	c.RetryMax = 1
	c.RetryWaitMax = time.Millisecond
	if _, err := c.Post(s.URL, "text/plain", nil); err == nil || s.seen() != 3 {
		t.Errorf("after %d: %v", s.seen(), err)
	}
}

// A cookie is sent once in each attempt.
func TestCookies(t *testing.T) {
	t.Parallel()
	s := newServer(t, 500, 500, 200)
	jar, _ := cookiejar.New(nil)
	at, _ := url.Parse(s.URL)
	jar.SetCookies(at, []*http.Cookie{{Name: "session", Value: "1"}})
	c := newClient()
	c.HTTPClient = &http.Client{Jar: jar}
	do(t, c, request(t, "GET", s.URL, nil))
	for i, r := range s.requests {
		if got := r.Header["Cookie"]; !slices.Equal(got, []string{"session=1"}) {
			t.Errorf("attempt %d has the cookies %q", i, got)
		}
	}
}

// An http.Client wraps the error of a RoundTripper once.
func TestErrorsAreNotNested(t *testing.T) {
	t.Parallel()
	c := newClient()
	c.RetryMax, c.ErrorHandler = 0, PassthroughErrorHandler
	_, err := c.StandardClient().Get("http://127.0.0.1:1/")
	outer := (*url.Error)(nil)
	if !errors.As(err, &outer) || errors.As(outer.Err, new(*url.Error)) || !errors.As(outer.Err, new(*net.OpError)) {
		t.Errorf("%#v", err)
	}
}
