package deliveryqueue

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"example.com/awsretry/internal/httpfake"
)

func TestStoredRequestIsTheSame(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		body   string
		change func(*http.Request)
		want   func(*httpfake.Sent) // changes what is sent; nil: nothing
	}{
		{"as it is", "hello", nil, nil},
		{"no body", "", func(r *http.Request) { r.Body, r.GetBody, r.ContentLength = nil, nil, 0 }, nil},
		{"bytes that are not text", "\x00\xff\r\n\r\n{}\n", nil, nil},
		{"headers in other letter cases, several values, odd bytes", "hello", func(r *http.Request) {
			r.Header = http.Header{
				"SOAPAction": {`"a"`}, "soapaction": {"b"}, "X-Many": {"z", "a", "", "m"}, "X-Space": {"  a b  "},
				"X-Bytes": {"\xff\x80ü:;, "}, "Authorization": {"Bearer secret"}, "Connection": {"close"},
			}
		}, nil},
		{"headers that net/http sets itself", "hello", func(r *http.Request) {
			r.Header = http.Header{
				"content-length": {"999"}, "Transfer-Encoding": {"chunked"}, "Host": {"evil"}, "Trailer": {"x"}, "X": {"y"},
			}
		}, func(s *httpfake.Sent) { s.Header = http.Header{"X": {"y"}} }},
		{"no User-Agent", "hello", func(r *http.Request) { r.Header["User-Agent"] = nil }, nil},
		{"another host", "hello", func(r *http.Request) { r.Host = "virtual.example" }, nil},
		{"no method", "hello", func(r *http.Request) { r.Method = "" }, func(s *httpfake.Sent) { s.Method = "GET" }},
		{"an odd URL", "hello", func(r *http.Request) {
			r.URL, _ = url.Parse("https://user:pass%20word@[::1]:8443/a%2Fb/%20c;d?q=%zz&r=a b&s=ü\xff&u#frag")
		}, func(s *httpfake.Sent) { s.URL = strings.TrimSuffix(s.URL, "#frag") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := post(t, "https://a.example/path?query=1", tt.body)
			if tt.change != nil {
				tt.change(req)
			}
			stored := must[[]byte](t)(encodeRequest(req, []byte(tt.body), ""))
			want := must[httpfake.Sent](t)(httpfake.Record(req))
			if tt.want != nil {
				tt.want(&want)
			}
			again, _, err := decodeRequest(stored)
			check(t, err)
			for range 2 { // the second time as in a retry
				if got := must[httpfake.Sent](t)(httpfake.Record(again)); !reflect.DeepEqual(got, want) {
					t.Errorf("got  %+v\nwant %+v", got, want)
				}
				if again.GetBody != nil {
					again.Body = must[io.ReadCloser](t)(again.GetBody())
				}
			}
		})
	}
	closes := post(t, "http://a.example", "")
	closes.Close = true
	if again, _, err := decodeRequest(must[[]byte](t)(encodeRequest(closes, nil, ""))); err != nil || !again.Close {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestRequestsThatCannotBeStored(t *testing.T) {
	t.Parallel()
	for text, change := range map[string]func(*http.Request){
		"read back unchanged":         func(r *http.Request) { r.URL.Host = "b.example/x?" },
		"must take at most 1048576":   func(r *http.Request) { r.Header.Set("X", strings.Repeat("x", maxHead)) },
		"URL would not be read back ": func(r *http.Request) { r.URL.RawQuery = "a\r\nb" },
	} {
		req := post(t, "https://a.example/", "hello")
		change(req)
		if _, err := encodeRequest(req, []byte("hello"), ""); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q in it", err, text)
		}
	}
}

// The path in an opaque URL that a version before the first release stored is not lost
// in silence.
func TestStoredOpaqueURL(t *testing.T) {
	t.Parallel()
	row := `{"method": "POST", "url": "aHR0cDovL2hvc3Q=", "opaque": "L2hvb2tz", "length": 0}` + "\n"
	if req, _, err := decodeRequest([]byte(row)); err == nil || !strings.Contains(err.Error(), "is opaque") {
		t.Errorf("%v, error %v", req, err)
	}
}

// What was cut anywhere, or continues after the body, is not a request.
func TestOnlyWholeRequestsAreRead(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"hello", ""} {
		whole := must[[]byte](t)(encodeRequest(post(t, "https://a.example/", body), []byte(body), ""))
		for n := range len(whole) {
			if _, _, err := decodeRequest(whole[:n]); err == nil {
				t.Errorf("%d of %d bytes are read as a request:\n%s", n, len(whole), whole[:n])
			}
		}
		if _, _, err := decodeRequest(append(whole, 'x')); err == nil {
			t.Errorf("a byte after the request is accepted:\n%s", whole)
		}
	}
	for _, foreign := range []string{
		"", "hello\n", "[]\n", "{}\n", `{"method": "GET", "url": "OmE="}` + "\n", `{"method": "GET", "length": -1}` + "\n",
	} {
		if _, _, err := decodeRequest([]byte(foreign)); err == nil {
			t.Errorf("%q is read as a request", foreign)
		}
	}
}

func FuzzDecodeRequest(f *testing.F) {
	req := post(f, "https://a.example/x?y", "hello")
	req.Header.Set("X", "y")
	f.Add(must[[]byte](f)(encodeRequest(req, []byte("hello"), "")))
	f.Fuzz(func(t *testing.T, stored []byte) {
		req, _, err := decodeRequest(stored)
		if err != nil || req.Body == nil {
			return
		}
		first := must[[]byte](t)(io.ReadAll(req.Body))
		second := must[[]byte](t)(io.ReadAll(must[io.ReadCloser](t)(req.GetBody())))
		if !bytes.Equal(first, second) || int64(len(first)) != req.ContentLength {
			t.Fatalf("%q then %q of %d bytes", first, second, req.ContentLength)
		}
	})
}
