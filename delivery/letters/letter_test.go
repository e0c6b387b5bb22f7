package letters

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry/internal/httpfake"
)

func TestLettersKeepTheRequestExactly(t *testing.T) {
	unknownLength := func(req *http.Request, body string) {
		req.Body, req.GetBody, req.ContentLength = io.NopCloser(iotest.OneByteReader(strings.NewReader(body))), nil, -1
	}
	tests := []struct {
		name   string
		change func(*http.Request)
		want   func(*httpfake.Sent)
	}{
		{"as it is", func(*http.Request) {}, nil},
		{"http.NoBody", func(r *http.Request) { r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0 }, nil},
		{"an empty body of unknown length", func(r *http.Request) { unknownLength(r, "") }, nil},
		{"a body of unknown length", func(r *http.Request) { unknownLength(r, "one\r\n0\r\n\r\ntwo") }, nil},
		{"a body of length 0, which means unknown",
			func(r *http.Request) { unknownLength(r, "three"); r.ContentLength = 0 },
			func(s *httpfake.Sent) { s.Length = -1 }},
		{"bytes that are not text", func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("\x00\xff\r\n\r\nPOST / HTTP/1.1\r\n\r\n")), 25
		}, nil},
		{"headers in other letter cases, several values, odd bytes", func(r *http.Request) {
			r.Header = http.Header{
				"SOAPAction": {`"a"`}, "soapaction": {"b"}, "X-Many": {"z", "a", "", "m"}, "X-Space": {"  a b  "},
				"X-Bytes": {"\xff\x80ü:;, "}, "Authorization": {"Bearer secret"}, "Connection": {"close"},
			}
		}, nil},
		{"headers that net/http sets itself", func(r *http.Request) {
			r.Header = http.Header{
				"Content-Length": {"999"}, "Transfer-Encoding": {"chunked"}, "Host": {"evil"},
				"Trailer": {"x"}, "X": {"y"},
			}
		}, func(s *httpfake.Sent) { s.Header = http.Header{"X": {"y"}} }},
		{"no User-Agent", func(r *http.Request) { r.Header["User-Agent"] = nil },
			func(s *httpfake.Sent) { s.Header = http.Header{"User-Agent": {""}} }},
		{"trailers", func(r *http.Request) {
			unknownLength(r, "body")
			r.Trailer = http.Header{"X-Sum": {"1234"}, "x-odd": {"a", "b"}}
		}, nil},
		{"a trailer as long as it may be", func(r *http.Request) {
			unknownLength(r, "body")
			r.Trailer = http.Header{"X": {longestTrailer}}
		}, nil},
		{"trailers and a length", func(r *http.Request) { r.Trailer = http.Header{"X-Sum": {"1"}} },
			func(s *httpfake.Sent) { s.Length = -1 }},
		{"another host", func(r *http.Request) { r.Host = "virtual.example" }, nil},
		{"no method", func(r *http.Request) { r.Method = "" }, func(s *httpfake.Sent) { s.Method = "GET" }},
		{"an odd URL", func(r *http.Request) {
			r.Host = ""
			r.URL, _ = url.Parse("https://user:pass%20word@[::1]:8443/a%2Fb/%20c;d?q=%zz&r=a b&s=ü\xff&u#frag")
		}, func(s *httpfake.Sent) { s.URL = strings.TrimSuffix(s.URL, "#frag") }},
		{"an opaque URL", func(r *http.Request) {
			r.URL = &url.URL{Scheme: "http", Host: "127.0.0.1:8080", Opaque: "//a.example/%2f%2F/x", RawQuery: "y"}
		}, nil},
		{"an opaque path", func(r *http.Request) {
			r.URL = &url.URL{Scheme: "http", Host: "a.example", Opaque: "/%zz\xff?", RawQuery: "y", User: url.User("u")}
		}, nil},
		{"to be closed", func(r *http.Request) { r.Close = true },
			func(s *httpfake.Sent) { s.Header = http.Header{"Connection": {"close"}} }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			request := func() *http.Request {
				req := post(t, "https://a.example/path?query=1", "hello")
				req.Header = http.Header{}
				test.change(req)
				return req
			}
			want, err := receive(request())
			if err != nil {
				t.Fatal(err)
			}
			if want.Host == "" {
				want.Host = request().URL.Host
			}
			if test.want != nil {
				test.want(&want)
			}
			put(t, &Dir{Path: dir}, osDisk{}, request())
			done, err := send(t, dir, func(req *http.Request) (*http.Response, error) {
				for range 2 { // the second time as in a retry
					got, err := receive(req)
					if diff := cmp.Diff(want, got); diff != "" || err != nil {
						t.Errorf("%v (-want +got):\n%s", err, diff)
					}
					if req.Body != nil {
						req.Body, _ = req.GetBody()
					}
				}
				return respond(200, req), nil
			})
			if err != nil || done != (Counts{Delivered: 1}) {
				t.Fatalf("got %+v, %v", done, err)
			}
		})
	}
}

// Write and Read name the package in their errors, and the head has no secrets.
func TestWriteAndRead(t *testing.T) {
	req := post(t, "https://user:secret@endpoint.test/hook?token=secret", "hello")
	var b bytes.Buffer
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := Write(&b, DeadLetter{Request: req}, now); err != nil {
		t.Fatal(err)
	}
	size := int64(b.Len())
	head, again, err := Read(bytes.NewReader(b.Bytes()), size)
	want := Letter{Method: "POST", URL: "https://endpoint.test/hook", Time: now, Size: size}
	if head != want || err != nil || again.URL.String() != req.URL.String() {
		t.Errorf("got %+v, %v, %v; want %+v", head, again, err, want)
	}
	if _, req, err := Read(bytes.NewReader(b.Bytes()), size-1); req != nil || err == nil ||
		!strings.HasPrefix(err.Error(), "letters: Read: ") {
		t.Errorf("of half a letter: %v, %v", req, err)
	}
	req.Header.Set("X", "a\nb")
	if err := Write(&b, DeadLetter{Request: req}, now); err == nil ||
		!strings.HasPrefix(err.Error(), "letters: Write: ") {
		t.Errorf("of a line break: %v", err)
	}
}

func TestRequestsThatCannotBeWritten(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*http.Request)
		want   string
	}{
		"a line break in a value": {func(r *http.Request) { r.Header.Set("X", "a\r\nEvil: b") }, "a line break"},
		"a colon in a name":       {func(r *http.Request) { r.Header["X: y"] = []string{"a"} }, "not a header name"},
		"an empty name":           {func(r *http.Request) { r.Header[""] = []string{"a"} }, "not a header name"},
		"a method of two words":   {func(r *http.Request) { r.Method = "GET /" }, "method"},
		"a line break in the URL": {func(r *http.Request) { r.URL.RawQuery = "a\r\nb" }, "URL"},
		"a host that is a URL":    {func(r *http.Request) { r.URL.Host = "b.example/x?" }, "URL"},
		"a line break in a trailer": {func(r *http.Request) {
			r.ContentLength, r.Trailer = -1, http.Header{"X": {"a\nb"}}
		}, "a line break"},
		"no URL":               {func(r *http.Request) { r.URL = nil }, "URL"},
		"a body that is short": {func(r *http.Request) { r.ContentLength = 6 }, "ContentLength is 6"},
		"a body that is long":  {func(r *http.Request) { r.ContentLength = 4 }, "ContentLength is 4"},
		"no body at all":       {func(r *http.Request) { r.Body = nil }, "ContentLength is 5 and there is no body"},
		"a reader that fails": {func(r *http.Request) {
			r.Body = io.NopCloser(iotest.ErrReader(io.ErrNoProgress))
		}, "multiple Read"},
		"a stream that fails": {func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(iotest.ErrReader(io.ErrNoProgress)), -1
		}, "multiple Read"},
		"a header that is long": {func(r *http.Request) {
			r.Header.Set("X", strings.Repeat("x", maxHead))
		}, "at most 1048576"},
		"a trailer that is long": {func(r *http.Request) {
			r.ContentLength, r.Trailer = -1, http.Header{"X": {longestTrailer + "x"}}
		}, "at most 1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			req := post(t, "https://a.example/", "hello")
			test.change(req)
			err := (&Dir{Path: dir}).Put(t.Context(), DeadLetter{Request: req})
			where := "letters: Put: " + dir
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), where) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
			if left := entries(t, dir); len(left) > 0 {
				t.Errorf("%s was left in the folder", left)
			}
		})
	}
	t.Run("no request", func(t *testing.T) {
		if err := (&Dir{Path: t.TempDir()}).Put(t.Context(), DeadLetter{}); err == nil {
			t.Error("no error")
		}
	})
}

// longestTrailer is the longest value that a trailer named X may have.
var longestTrailer = strings.Repeat("x", maxHead-len("X: \r\n\r\n"))

func TestPublicURL(t *testing.T) {
	for _, test := range []struct {
		url  url.URL
		want string
	}{
		{url.URL{
			Scheme: "https", Host: "a.example:1", Path: "/a/b", RawPath: "/a%2Fb",
			RawQuery: "secret", Fragment: "secret", User: url.User("secret"), ForceQuery: true,
		}, "https://a.example:1/a%2Fb"},
		{url.URL{Scheme: "https", Host: "a.example", Opaque: "/a%2Fb?secret"}, "https://a.example/a%2Fb"},
		{url.URL{Scheme: "https", Host: "a.example", Opaque: "//secret@b.example/a#secret", RawQuery: "secret"},
			"https://a.example/a"},
		{url.URL{Scheme: "https", Host: "a.example", Opaque: "//secret@b.example?secret"}, "https://a.example/"},
		{url.URL{Scheme: "https", Host: "a.example", Opaque: "secret"}, "https://a.example"},
	} {
		t.Run(test.url.String(), func(t *testing.T) {
			if got := publicURL(&test.url); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A file that was cut anywhere, or that goes on after its letter, is broken.
func TestOnlyWholeLettersAreRead(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"a body of known length": func(req *http.Request) { req.Header.Set("X", "y") },
		"a body with a trailer": func(req *http.Request) {
			req.ContentLength, req.Trailer = -1, http.Header{"X-Sum": {"1"}}
		},
		"no body": func(req *http.Request) { req.Body, req.ContentLength = nil, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			req := post(t, "https://a.example/", "hello")
			change(req)
			var b bytes.Buffer
			if err := writeLetter(&b, DeadLetter{Request: req}, time.Now()); err != nil {
				t.Fatal(err)
			}
			whole := b.Bytes()
			for n := range whole {
				if _, _, err := readLetter(bytes.NewReader(whole[:n]), int64(n)); err == nil {
					t.Errorf("%d of %d bytes are read as a letter:\n%s", n, len(whole), whole[:n])
				}
			}
			longer := append(whole, 'x')
			if _, _, err := readLetter(bytes.NewReader(longer), int64(len(longer))); err == nil {
				t.Errorf("a byte after the letter is accepted:\n%s", longer)
			}
		})
	}
}

func TestForeignLetters(t *testing.T) {
	const head = `{"time":"2025-01-02T03:04:05Z","method":"POST","url":"x","attempts":1,"reason":"permanent"}` + "\n"
	for name, text := range map[string]string{
		"nothing":           "",
		"not JSON":          "hello\n",
		"another JSON":      `{"a":1}` + "\nGET http://a/ HTTP/1.1\r\n\r\n",
		"an endless head":   strings.Repeat("x", 2*maxHead),
		"an endless header": head + "GET http://a/ HTTP/1.1\r\n" + strings.Repeat("X: y\r\n", maxHead/4),
		"no request line":   head + "hello\r\n\r\n",
		"not HTTP":          head + "GET http://a/ SMTP\r\n\r\n",
		"no URL":            head + "GET http://a:b:c/ HTTP/1.1\r\n\r\n",
		"not a header":      head + "GET http://a/ HTTP/1.1\r\nhello\r\n\r\n",
		"Unix lines":        head + "GET http://a/ HTTP/1.1\nX: y\n\n",
		"a length twice":    head + "POST http://a/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		"a negative length": head + "POST http://a/ HTTP/1.1\r\nContent-Length: -1\r\n\r\nx",
		"a length and chunks": head +
			"POST http://a/ HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"another encoding": head + "POST http://a/ HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\nx",
		"broken chunks": head +
			"POST http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n0\r\n\r\n",
		"a body without framing": head + "POST http://a/ HTTP/1.1\r\n\r\nx",
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := readLetter(strings.NewReader(text), int64(len(text))); err == nil {
				t.Error("no error")
			} else if strings.Contains(name, "endless") && !strings.Contains(err.Error(), "more than 1048576 bytes") {
				t.Errorf("got %v", err)
			} else if len(err.Error()) > 300 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
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
			t.Fatalf("a letter was read whose body fails: %v\n%q", err, text)
		}
		if req.Body == nil {
			return
		}
		req.Body, _ = req.GetBody()
		if second, err := receive(req); err != nil || first.Body != second.Body {
			t.Fatalf("%q then %q, %v", first.Body, second.Body, err)
		}
	})
}
