package byterange

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
)

// response returns a response with a body whose length is unknown.
func response(status int, header ...string) *http.Response {
	resp := &http.Response{
		StatusCode: status, Header: make(http.Header), Body: io.NopCloser(strings.NewReader("x")), ContentLength: -1,
	}
	for i := 0; i < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
	}
	return resp
}

func request(method, asked string) *http.Request {
	req := &http.Request{Method: method, Header: make(http.Header)}
	if asked != "" {
		req.Header.Set("Range", asked)
	}
	return req
}

func TestOf(t *testing.T) {
	for _, tt := range []struct {
		name   string
		asked  string // the Range
		status int
		length int64
		part   string // the Content-Range
		want   Span
		ok     bool
	}{
		{"whole", "", 200, 260, "", Span{Last: 259, Total: 260, Open: true}, true},
		{"whole, of unknown length", "", 200, -1, "", Span{Last: -2, Total: -1, Open: true}, true},
		{"whole although a part was asked for", "bytes=5-9", 200, 260, "", Span{Last: 259, Total: 260, Open: true}, true},
		{"part", "bytes=5-9", 206, 5, "bytes 5-9/260", Span{First: 5, Last: 9, Total: 260}, true},
		{"part of an object of unknown length", "bytes=5-9", 206, 5, "bytes 5-9/*", Span{First: 5, Last: 9, Total: -1}, true},
		{"rest", "bytes=5-", 206, 255, "bytes 5-259/260", Span{First: 5, Last: 259, Total: 260, Open: true}, true},
		{"less than the rest", "bytes=5-", 206, 5, "bytes 5-9/260", Span{First: 5, Last: 9, Total: 260}, true},
		{name: "another length", asked: "bytes=5-9", status: 206, length: 4, part: "bytes 5-9/260"},
		{name: "another part", asked: "bytes=5-9", status: 206, length: 5, part: "bytes 6-10/260"},
		{"the last bytes", "bytes=-5", 206, 5, "bytes 255-259/260", Span{First: 255, Last: 259, Total: 260}, true},
		{"fewer last bytes", "bytes=-999", 206, -1, "bytes 0-259/260", Span{Last: 259, Total: 260}, true},
		{"the last bytes of an unknown total", "bytes=-5", 206, 5, "bytes 255-259/*",
			Span{First: 255, Last: 259, Total: -1}, true},
		{name: "not the last bytes", asked: "bytes=-5", status: 206, length: 5, part: "bytes 254-258/260"},
		{name: "more than the last bytes", asked: "bytes=-5", status: 206, length: 6, part: "bytes 254-259/260"},
		{name: "a negative number of last bytes", asked: "bytes=--5", status: 206, length: 5, part: "bytes 255-259/260"},
		{name: "several ranges", asked: "bytes=5-9,11-12", status: 206, length: 5, part: "bytes 5-9/260"},
		{name: "another unit", asked: "lines=5-9", status: 206, length: 5, part: "bytes 5-9/260"},
		{name: "a part that nothing asked for", status: 206, length: 5, part: "bytes 5-9/260"},
		{name: "no Content-Range", asked: "bytes=5-9", status: 206, length: 5},
		{name: "beyond the total", asked: "bytes=5-9", status: 206, length: 5, part: "bytes 5-9/9"},
		{name: "without an end", asked: "bytes=5-", status: 206, length: -1, part: "bytes 5-9223372036854775807/*"},
		{name: "another status", status: 203, length: 260},
	} {
		resp := response(tt.status, "Content-Range", tt.part)
		resp.ContentLength = tt.length
		got, ok := Of(request("", tt.asked), resp)
		if got != tt.want || ok != tt.ok {
			t.Errorf("%s: %+v, %v, want %+v, %v", tt.name, got, ok, tt.want, tt.ok)
		}
		if n, known := got.Length(); ok && known && tt.length >= 0 && n != tt.length {
			t.Errorf("%s: the length is %d, want %d", tt.name, n, tt.length)
		}
	}
}

func TestResumable(t *testing.T) {
	const etag = `"v1"`
	get := request("GET", "")
	withBody := request("GET", "")
	withBody.Body = io.NopCloser(strings.NewReader("x"))
	decompressed, empty, twoETags := response(200, "Etag", etag), response(200, "Etag", etag), response(200, "Etag", etag)
	decompressed.Uncompressed, empty.ContentLength = true, 0
	twoETags.Header.Add("Etag", `"v2"`)
	for _, tt := range []struct {
		req  *http.Request
		resp *http.Response
		why  string // a part of it; "": resumable
	}{
		{get, response(200, "Etag", etag), ""},
		{request("", ""), response(200, "Etag", etag, "Accept-Ranges", "bytes"), ""},
		{get, response(200, "Etag", etag, "Content-Encoding", "br"), ""},
		{request("HEAD", ""), response(200, "Etag", etag), "GET"},
		{withBody, response(200, "Etag", etag), "body"},
		{get, decompressed, "decompressed"},
		{get, empty, "empty"},
		{request("GET", "bytes=0-"),
			response(206, "Etag", etag, "Content-Encoding", "br", "Content-Range", "bytes 0-9/10"), "no length"},
		{get, response(200, "Etag", etag, "Accept-Ranges", "none"), "Accept-Ranges"},
		{get, response(200), "no ETag"},
		{get, response(200, "Etag", `W/"v1"`), "weak"},
		{get, response(200, "Etag", "v1"), "quotes"},
		{get, response(200, "Etag", `"`), "quotes"},
		{get, response(200, "Etag", `"v1", "v2"`), "several"},
		{get, twoETags, "several"},
		{get, response(404, "Etag", etag), "whole object"},
	} {
		if _, why := Resumable(tt.req, tt.resp); (why == "") != (tt.why == "") || !strings.Contains(why, tt.why) {
			t.Errorf("%s, %v: %q, want %q", tt.req.Method, tt.resp.Header, why, tt.why)
		}
	}
}

// A Content-Range that is accepted is a part of an object, and a response with
// it is that part.
func FuzzContentRange(f *testing.F) {
	for _, value := range []string{
		"bytes 0-0/1", "bytes 5-9/260", "bytes 5-9/*", "bytes */260", "bytes 9-5/260", "bytes 5-260/260", "bytes 5-9",
		"bytes -1-9/260", "bytes 0-9223372036854775807/*", "bytes 0-9/-1", "bytes 5-9/260/1", "Bytes 5-9/260", "",
	} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		first, last, total, ok := ContentRange(response(206, "Content-Range", value))
		if !ok {
			return
		}
		if first < 0 || last < first || last == math.MaxInt64 || total != -1 && total <= last {
			t.Fatalf("%q is %d to %d of %d", value, first, last, total)
		}
		size := "*"
		if total >= 0 {
			size = fmt.Sprint(total)
		}
		resp := response(206, "Content-Range", fmt.Sprintf("bytes %d-%d/%s", first, last, size))
		part, ok := Of(request("GET", fmt.Sprintf("bytes=%d-%d", first, last)), resp)
		if want := (Span{First: first, Last: last, Total: total}); part != want || !ok {
			t.Errorf("%+v, %v, want %+v", part, ok, want)
		}
		if n, known := part.Length(); n != last-first+1 || n < 1 || !known || !part.Contains(last, total) {
			t.Errorf("%+v has %d bytes", part, n)
		}
	})
}
