package delivery

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sent is what a server could tell of a request.
type sent struct {
	Method, URL, Host, Body string
	To, Opaque              string // where to, and what is sent in place of a path
	Header, Trailer         http.Header
	Length                  int64
}

// receive reads a request as a RoundTripper does.
func receive(req *http.Request) (sent, error) {
	s := sent{Method: req.Method, URL: req.URL.String(), Host: req.Host, To: req.URL.Host, Opaque: req.URL.Opaque, Header: req.Header, Length: req.ContentLength}
	if req.Body != nil {
		defer req.Body.Close()
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return s, err
		}
		s.Body = string(body)
	}
	s.Trailer = req.Trailer
	return s, nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func answerWith(status int, req *http.Request) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}
}

func post(t testing.TB, target, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequest("POST", target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestLettersKeepTheRequestExactly(t *testing.T) {
	unknownLength := func(req *http.Request, body string) {
		req.Body, req.GetBody, req.ContentLength = io.NopCloser(iotest.OneByteReader(strings.NewReader(body))), nil, -1
	}
	big := strings.Repeat("0123456789abcdef", 1<<16)
	tests := []struct {
		name   string
		change func(*http.Request)
		want   func(*sent)
	}{
		{"as it is", func(*http.Request) {}, nil},
		{"no body", func(r *http.Request) { r.Body, r.GetBody, r.ContentLength = nil, nil, 0 }, nil},
		{"http.NoBody", func(r *http.Request) { r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0 }, nil},
		{"an empty body of unknown length", func(r *http.Request) { unknownLength(r, "") }, nil},
		{"a body of unknown length", func(r *http.Request) { unknownLength(r, "one\r\n0\r\n\r\ntwo") }, nil},
		{"a length of 0 with a body is an unknown one", func(r *http.Request) { unknownLength(r, "three"); r.ContentLength = 0 },
			func(s *sent) { s.Length = -1 }},
		{"a large body", func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(big)), int64(len(big))
		}, nil},
		{"bytes that are no text", func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("\x00\xff\r\n\r\nPOST / HTTP/1.1\r\n\r\n")), 25
		}, nil},
		{"headers in other letters, several values, odd bytes", func(r *http.Request) {
			r.Header = http.Header{"SOAPAction": {`"a"`}, "soapaction": {"b"}, "X-Many": {"z", "a", "", "m"}, "X-Space": {"  a b  "},
				"X-Bytes": {"\xff\x80ü:;, "}, "Authorization": {"Bearer secret"}, "Connection": {"close"}}
		}, nil},
		{"headers that net/http makes itself", func(r *http.Request) {
			r.Header = http.Header{"Content-Length": {"999"}, "Transfer-Encoding": {"chunked"}, "Host": {"evil"}, "Trailer": {"x"}, "X": {"y"}}
		}, func(s *sent) { s.Header = http.Header{"X": {"y"}} }},
		{"no User-Agent", func(r *http.Request) { r.Header["User-Agent"] = nil },
			func(s *sent) { s.Header = http.Header{"User-Agent": {""}} }},
		{"trailers", func(r *http.Request) {
			unknownLength(r, "body")
			r.Trailer = http.Header{"X-Sum": {"1234"}, "x-odd": {"a", "b"}}
		}, nil},
		{"a trailer as long as it may be", func(r *http.Request) {
			unknownLength(r, "body")
			r.Trailer = http.Header{"X": {longestTrailer}}
		}, nil},
		{"trailers and a length", func(r *http.Request) { r.Trailer = http.Header{"X-Sum": {"1"}} }, func(s *sent) { s.Length = -1 }},
		{"another host", func(r *http.Request) { r.Host = "virtual.example" }, nil},
		{"no method", func(r *http.Request) { r.Method = "" }, func(s *sent) { s.Method = "GET" }},
		{"a method of one's own", func(r *http.Request) { r.Method = "pUrGe" }, nil},
		{"an odd URL", func(r *http.Request) {
			r.URL, _ = url.Parse("https://user:pass%20word@[::1]:8443/a%2Fb/%20c;d?q=%zz&r=a b&s=ü\xff&u#frag")
		}, func(s *sent) { s.URL = strings.TrimSuffix(s.URL, "#frag") }},
		{"an opaque URL", func(r *http.Request) {
			r.URL = &url.URL{Scheme: "http", Host: "a.example", Opaque: "//a.example/%2f%2F/x", RawQuery: "y"}
		}, nil},
		{"an opaque URL with the name of another host", func(r *http.Request) {
			r.URL = &url.URL{Scheme: "http", Host: "127.0.0.1:8080", Opaque: "//a.example/x"}
		}, nil},
		{"an opaque path", func(r *http.Request) {
			r.URL = &url.URL{Scheme: "http", Host: "a.example", Opaque: "/%zz\xff?", RawQuery: "y", User: url.User("u")}
		}, nil},
		{"an opaque URL without a host", func(r *http.Request) { r.URL = &url.URL{Scheme: "http", Opaque: "//a.example/x"} }, nil},
		{"to be closed", func(r *http.Request) { r.Close = true }, func(s *sent) { s.Header = http.Header{"Connection": {"close"}} }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			make := func() *http.Request {
				req := post(t, "https://a.example/path?query=1", "hello")
				req.Header = http.Header{}
				test.change(req)
				return req
			}
			want, err := receive(make())
			if err != nil {
				t.Fatal(err)
			}
			if want.Host == "" {
				want.Host = make().URL.Host
			}
			if test.want != nil {
				test.want(&want)
			}
			if err := DirQueue(dir)(t.Context(), DeadLetter{Request: make()}); err != nil {
				t.Fatal(err)
			}
			var got []sent
			done, err := Redrive(t.Context(), dir, roundTripper(func(req *http.Request) (*http.Response, error) {
				for range 2 { // the second time as a retry does
					s, err := receive(req)
					if err != nil {
						return nil, err
					}
					got = append(got, s)
					if req.Body != nil {
						if req.Body, err = req.GetBody(); err != nil {
							return nil, err
						}
					}
				}
				return answerWith(200, req), nil
			}))
			if err != nil || done != (Redriven{Delivered: 1}) {
				t.Fatalf("got %+v, %v", done, err)
			}
			for _, got := range got {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// longestTrailer is the longest value of a trailer that is called X.
var longestTrailer = strings.Repeat("x", maxLetterHead-len("X: \r\n\r\n"))

func TestRequestsThatCannotBeWritten(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*http.Request)
		want   string
	}{
		"a line break in a value": {func(r *http.Request) { r.Header.Set("X", "a\r\nEvil: b") }, "a line break"},
		"a line break in a name":  {func(r *http.Request) { r.Header["X\n"] = []string{"a"} }, "a line break"},
		"a colon in a name":       {func(r *http.Request) { r.Header["X: y"] = []string{"a"} }, "not a header name"},
		"a name of nothing":       {func(r *http.Request) { r.Header[""] = []string{"a"} }, "not a header name"},
		"a method of two words":   {func(r *http.Request) { r.Method = "GET /" }, "method"},
		"a line break in the URL": {func(r *http.Request) { r.URL.RawQuery = "a\r\nb" }, "URL"},
		"a host that is none":     {func(r *http.Request) { r.URL.Host = "b.example/x?" }, "URL"},
		"a line break in a trailer": {func(r *http.Request) { r.ContentLength, r.Trailer = -1, http.Header{"X": {"a\nb"}} },
			"a line break"},
		"no URL":                {func(r *http.Request) { r.URL = nil }, "URL"},
		"a body that is short":  {func(r *http.Request) { r.ContentLength = 6 }, "ContentLength is 6"},
		"a body that is long":   {func(r *http.Request) { r.ContentLength = 4 }, "ContentLength is 4"},
		"no body at all":        {func(r *http.Request) { r.Body = nil }, "ContentLength is 5 and there is no body"},
		"a reader that fails":   {func(r *http.Request) { r.Body = io.NopCloser(iotest.ErrReader(io.ErrNoProgress)) }, "multiple Read"},
		"a body that is lost":   {func(r *http.Request) { r.Body, r.ContentLength = lostBody{ErrBody}, -1 }, "cannot be read again"},
		"a header that is long": {func(r *http.Request) { r.Header.Set("X", strings.Repeat("x", maxLetterHead)) }, "at most 1048576"},
		"a trailer that is long": {func(r *http.Request) {
			r.ContentLength, r.Trailer = -1, http.Header{"X": {longestTrailer + "x"}}
		}, "at most 1048576"},
	} {
		dir := t.TempDir()
		req := post(t, "https://a.example/", "hello")
		test.change(req)
		err := DirQueue(dir)(t.Context(), DeadLetter{Request: req})
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "delivery: DirQueue: "+dir) {
			t.Errorf("%s: got %v, want %q in it", name, err, test.want)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: %s was left in the folder", name, left[0].Name())
		}
	}
	if err := DirQueue(t.TempDir())(t.Context(), DeadLetter{}); err == nil {
		t.Error("a dead letter without a request was taken")
	}
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	queue := DirQueue(dir)
	before := time.Now()
	req := post(t, "https://user:secret@a.example:8443/path?token=secret", "hello")
	resp := answerWith(503, req)
	if err := queue(t.Context(), DeadLetter{Request: req, Attempts: 4, Response: resp, Reason: "max_attempts"}); err != nil {
		t.Fatal(err)
	}
	hostile := errors.New("malformed HTTP status code \"\x1b]0;owned\a\u009b31m\" of https://user:secret@b.example/hook?token=secret")
	if err := queue(t.Context(), DeadLetter{Request: post(t, "http://b.example", ""), Attempts: 1, Err: hostile, Reason: "canceled"}); err != nil {
		t.Fatal(err)
	}
	failure := errors.New(strings.Repeat("ü", 1<<16) + "\n")
	if err := queue(t.Context(), DeadLetter{Request: post(t, "http://b.example", ""), Attempts: 1, Err: failure, Reason: "canceled"}); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "zz.txt", "foreign")
	write(t, dir, "zzz.letter", "{}\n")
	write(t, dir, "zzzz.letter.tmp", "half")

	var letters []Letter
	var errs []string
	for letter, err := range List(dir) {
		if err != nil {
			errs = append(errs, letter.Name+" "+err.Error())
			continue
		}
		letters = append(letters, letter)
	}
	if len(letters) != 3 || len(errs) != 2 || !strings.HasPrefix(errs[0], "zz.txt") || !strings.HasPrefix(errs[1], "zzz.letter") {
		t.Fatalf("got %v and %q", letters, errs)
	}
	for _, letter := range letters {
		info, err := os.Stat(filepath.Join(dir, letter.Name))
		if err != nil || info.Size() != letter.Size || info.Mode() != 0o600 && runtime.GOOS != "windows" {
			t.Errorf("%v, %v of %+v", info, err, letter)
		}
		if letter.Time.Before(before) || letter.Time.After(time.Now()) {
			t.Errorf("the time is %v", letter.Time)
		}
	}
	want := []Letter{
		{Method: "POST", URL: "https://a.example:8443/path", Attempts: 4, Reason: "max_attempts", Status: 503},
		{Method: "POST", URL: "http://b.example", Attempts: 1, Reason: "canceled",
			Err: "malformed HTTP status code \"\ufffd]0;owned\ufffd\ufffd31m\" of https://b.example/hook?…"},
		{Method: "POST", URL: "http://b.example", Attempts: 1, Reason: "canceled", Err: strings.Repeat("ü", maxErrText/2)},
	}
	for i := range letters {
		want[i].Name, want[i].Size, want[i].Time = letters[i].Name, letters[i].Size, letters[i].Time
	}
	if diff := cmp.Diff(want, letters); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	for range List(dir) {
		break // which must end it
	}
	t.Chdir(dir)
	for letter, err := range List("") { // not the current folder, nor one that is not there yet
		if letter.Name != "" || err == nil || errors.Is(err, os.ErrNotExist) || err.Error() != `delivery: List: the folder is ""; it must be a path` {
			t.Errorf("no folder: %+v, %v", letter, err)
		}
	}
	for _, err := range List(filepath.Join(dir, "missing")) {
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a folder that is not there: %v", err)
		}
	}
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A file that was cut off anywhere is found to be broken before anything of it
// is sent.
func TestTruncatedLettersAreNotSent(t *testing.T) {
	long := post(t, "https://a.example/", "hello")
	long.Header.Set("X", "y")
	stream := post(t, "https://a.example/", "hello")
	stream.ContentLength, stream.Trailer = -1, http.Header{"X-Sum": {"1"}}
	bare := post(t, "https://a.example/", "")
	bare.Body = nil
	for _, req := range []*http.Request{long, stream, bare} {
		var whole bytes.Buffer
		if err := writeLetter(&whole, DeadLetter{Request: req}, time.Now()); err != nil {
			t.Fatal(err)
		}
		for n := range whole.Len() {
			if _, _, err := readLetter(bytes.NewReader(whole.Bytes()[:n]), int64(n)); err == nil {
				t.Errorf("%d of %d bytes were taken for a letter:\n%s", n, whole.Len(), whole.Bytes()[:n])
			}
		}
		longer := append(whole.Bytes(), 'x')
		if _, _, err := readLetter(bytes.NewReader(longer), int64(len(longer))); err == nil {
			t.Errorf("a byte behind the letter was let pass:\n%s", longer)
		}
	}
}

func TestForeignLetters(t *testing.T) {
	const head = `{"time":"2025-01-02T03:04:05Z","method":"POST","url":"x","attempts":1,"reason":"permanent"}` + "\n"
	for name, text := range map[string]string{
		"nothing":                "",
		"no JSON":                "hello\n",
		"another JSON":           `{"a":1}` + "\nGET http://a/ HTTP/1.1\r\n\r\n",
		"an endless head":        strings.Repeat("x", 2*maxLetterHead),
		"an endless header":      head + "GET http://a/ HTTP/1.1\r\n" + strings.Repeat("X: y\r\n", maxLetterHead/4),
		"no request line":        head + "hello\r\n\r\n",
		"no HTTP":                head + "GET http://a/ SMTP\r\n\r\n",
		"no URL":                 head + "GET http://a:b:c/ HTTP/1.1\r\n\r\n",
		"no header":              head + "GET http://a/ HTTP/1.1\r\nhello\r\n\r\n",
		"Unix lines":             head + "GET http://a/ HTTP/1.1\nX: y\n\n",
		"a length twice":         head + "POST http://a/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		"a negative length":      head + "POST http://a/ HTTP/1.1\r\nContent-Length: -1\r\n\r\nx",
		"a length and chunks":    head + "POST http://a/ HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"another encoding":       head + "POST http://a/ HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\nx",
		"broken chunks":          head + "POST http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n0\r\n\r\n",
		"a body without framing": head + "POST http://a/ HTTP/1.1\r\n\r\nx",
	} {
		if _, _, err := readLetter(strings.NewReader(text), int64(len(text))); err == nil {
			t.Errorf("%s: taken for a letter", name)
		} else if strings.Contains(name, "endless") && !strings.Contains(err.Error(), "more than 1048576 bytes") {
			t.Errorf("%s: got %v", name, err)
		} else if len(err.Error()) > 300 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
}

// A body is copied, not held.
func TestLettersAreStreamed(t *testing.T) {
	const size = 64 << 20
	dir := t.TempDir()
	req := post(t, "https://a.example/", "")
	req.Body, req.GetBody, req.ContentLength = io.NopCloser(io.LimitReader(zeros{}, size)), nil, -1
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := DirQueue(dir)(t.Context(), DeadLetter{Request: req}); err != nil {
		t.Fatal(err)
	}
	var got int64
	_, err := Redrive(t.Context(), dir, roundTripper(func(req *http.Request) (*http.Response, error) {
		got, _ = io.Copy(io.Discard, req.Body)
		return answerWith(204, req), nil
	}))
	runtime.ReadMemStats(&after)
	if err != nil || got != size {
		t.Errorf("%d bytes of %d, %v", got, int64(size), err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
		t.Errorf("%d bytes were allocated for a body of %d", grown, int64(size))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func FuzzReadLetter(f *testing.F) {
	req := post(f, "https://a.example/x?y", "hello")
	req.Header.Set("X", "y")
	for _, length := range []int64{5, -1} {
		req.ContentLength = length
		req.Body, _ = req.GetBody()
		var b bytes.Buffer
		if err := writeLetter(&b, DeadLetter{Request: req, Err: io.EOF}, time.Unix(1, 1)); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, req, err := readLetter(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			return
		}
		first, err := receive(req)
		if err != nil {
			t.Fatalf("a letter was taken whose body fails: %v\n%q", err, text)
		}
		if req.Body == nil {
			return
		}
		if req.Body, err = req.GetBody(); err != nil {
			t.Fatal(err)
		}
		second, err := receive(req)
		if err != nil || first.Body != second.Body {
			t.Fatalf("%q then %q, %v", first.Body, second.Body, err)
		}
	})
}

func TestPublicURL(t *testing.T) {
	for _, test := range []struct {
		url  url.URL
		want string
	}{
		{url.URL{Scheme: "https", Host: "a.example:1", Path: "/a/b", RawPath: "/a%2Fb", RawQuery: "secret", Fragment: "secret", User: url.User("secret"), ForceQuery: true}, "https://a.example:1/a%2Fb"},
		{url.URL{Scheme: "https", Host: "a.example", Opaque: "/a%2Fb?secret"}, "https://a.example/a%2Fb"},
		{url.URL{Scheme: "https", Host: "a.example", Opaque: "//secret@b.example/a#secret", RawQuery: "secret"}, "https://a.example/a"},
		{url.URL{Scheme: "https", Host: "a.example", Opaque: "//secret@b.example?secret"}, "https://a.example/"},
		{url.URL{Scheme: "https", Host: "a.example", Opaque: "secret"}, "https://a.example"},
		{url.URL{Scheme: "https", Opaque: "secret"}, "https:"},
	} {
		if got := publicURL(&test.url); got != test.want {
			t.Errorf("%+v: got %q, want %q", test.url, got, test.want)
		}
	}
}

// A letter goes where its request went, whatever its URL says to the server.
func TestOpaqueLettersArrive(t *testing.T) {
	var lines []string
	status := 503
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		lines = append(lines, req.RequestURI+" "+req.Host)
		w.WriteHeader(status)
	}))
	defer server.Close()
	dir := t.TempDir()
	tr := &Transport{Policy: testPolicy(t, `"numRetries":0`), Base: server.Client().Transport, DeadLetter: DirQueue(dir)}
	for _, opaque := range []string{"//a.example/a%2Fb", "/a%2Fb"} {
		req := post(t, server.URL, "x")
		req.URL.Opaque, req.URL.RawQuery, req.Host = opaque, "y=1", "a.example"
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	status = 200
	if done, err := Redrive(t.Context(), dir, server.Client().Transport); done != (Redriven{Delivered: 2}) || err != nil {
		t.Errorf("got %+v, %v", done, err)
	}
	want := []string{"http://a.example/a%2Fb?y=1 a.example", "/a%2Fb?y=1 a.example"}
	if diff := cmp.Diff(append(want, want...), lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
