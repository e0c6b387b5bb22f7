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

	"example.com/awsretry/internal/httpfake"
	"github.com/google/go-cmp/cmp"
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
