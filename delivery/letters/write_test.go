package letters

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
)

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
