package contract_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"example.com/awsretry/internal/httpfake"
)

// behaviors are what a service may do to a response.
var behaviors = edits{
	func(*http.Response) {},
	withStatus(503),
	withStatus(429),
	noLength,
	withHeader("Accept-Ranges", "none"),
	withTrailer,
	ofRange(func(r *http.Response, first, last, _ int) { setRange(r, first, last, -1) }),
	ofRange(func(r *http.Response, first, last, _ int) { // a body that is too short
		r.Body = io.NopCloser(io.LimitReader(r.Body, int64(last-first)))
	}),
	ofRange(func(r *http.Response, _, _, _ int) { // a body that may be too long
		r.ContentLength = -1
		r.Body = io.NopCloser(io.MultiReader(r.Body, strings.NewReader("#")))
	}),
	ofRange(func(r *http.Response, first, last, total int) { // a part that is too short
		r.ContentLength = int64(last - first)
		setRange(r, first, last-1, total)
		r.Body = io.NopCloser(io.LimitReader(r.Body, int64(last-first)))
	}),
	ofRange(func(r *http.Response, first, last, _ int) { // perhaps a part that is too short
		r.ContentLength = int64(last - first)
		setRange(r, first, last-1, -1)
		r.Body = io.NopCloser(io.LimitReader(r.Body, int64(last-first)))
	}),
	// What must not be taken for a part of the object has bytes that are not.
	foreign(withStatus(416)),
	foreign(withStatus(412)),
	foreign(withStatus(302)),
	foreign(withHeader("ETag", `"other"`)),
	foreign(withHeader("ETag", `W/"v1"`)),
	foreign(withHeader("ETag")),
	foreign(withHeader("Content-Range")),
	foreign(withHeader("Content-Range", "lines 0-1/2")),
	foreign(withHeader("Content-Range", "bytes */2")),
	foreign(withHeader("Content-Type", "multipart/byteranges; boundary=x")),
	foreign(withHeader("Content-Encoding", "br")),
	foreign(func(r *http.Response) { r.Uncompressed = true }),
	foreign(ofRange(func(r *http.Response, first, last, total int) { setRange(r, first+1, last, total) })),
	foreign(ofRange(func(r *http.Response, first, last, total int) { setRange(r, first, last, total-1) })),
	foreign(ofRange(func(r *http.Response, _, _, total int) { // the whole object, of another version
		r.StatusCode, r.ContentLength = 200, int64(total)
		r.Header.Del("Content-Range")
		r.Header.Set("ETag", `"v2"`)
	})),
}

func setRange(r *http.Response, first, last, total int) {
	size := "*"
	if total >= 0 {
		size = fmt.Sprint(total)
	}
	r.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%s", first, last, size))
}

// ofRange is a behavior in a 206 that should have the rest.
func ofRange(change func(resp *http.Response, first, last, total int)) func(*http.Response) {
	return func(r *http.Response) {
		if r.StatusCode == 206 && r.Request.Header.Get("If-Range") != "" {
			var first, last, total int
			fmt.Sscanf(r.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &total)
			change(r, first, last, total)
		}
	}
}

// foreign is a behavior in such a 206, with a body that is not the object's and
// whose length does not say so.
func foreign(change func(*http.Response)) func(*http.Response) {
	return ofRange(func(r *http.Response, _, _, total int) {
		holding(strings.Repeat("#", total))(r)
		r.ContentLength = -1
		change(r)
	})
}

// compress compresses content as a service does on the fly, and scramble
// does something else to it that depends on where it begins.
func compress(content string) string {
	var compressed strings.Builder
	z := gzip.NewWriter(&compressed)
	io.WriteString(z, content)
	z.Close()
	return compressed.String()
}

func scramble(content string) string {
	mask := make([]byte, len(content))
	rand.NewChaCha8([32]byte{}).Read(mask)
	for i := range mask {
		mask[i] ^= content[i]
	}
	return string(mask)
}

// FuzzResume reads an object through any breaks and any behavior of the
// service: what is read is all of the object, or a part from its beginning and
// an error.
func FuzzResume(f *testing.F) {
	f.Add("abcdefghijklmnopqrstuvwxyz", []byte{3, 0, 4, 1, 0, 2}, uint16(0), uint16(0), uint8(0))
	for compressed := range uint8(8) {
		f.Add(strings.Repeat("abcdefghijklmnopqrstuvwxyz", 9), []byte{40, 0, 30, 0}, uint16(0), uint16(0), compressed)
		f.Add("abcdefghijklmnopqrstuvwxyz", []byte{20, 0, 9, 0, 3, 0, 2, 0}, uint16(2), uint16(0), compressed)
	}
	for choice := range len(behaviors) {
		f.Add("0123456789", []byte{3, 0, 2, byte(choice), 1, byte(choice)}, uint16(0), uint16(0), uint8(0))
		f.Add("0123456789", []byte{3, 3, 2, byte(choice), 1, byte(choice)}, uint16(2), uint16(8), uint8(choice))
	}
	f.Fuzz(func(t *testing.T, content string, script []byte, from, to uint16, compressed uint8) {
		if content == "" || len(content) > 1000 || strings.Contains(content, "#") {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			o := &object{content: content}
			encoded := func(s string) string { return s }
			switch compressed % 8 {
			case 1, 2: // by one that knows ranges of the plain bytes
				o.compress, o.plain, encoded = compress, compressed%2 == 0, compress
			case 3: // before
				content = compress(content)
				o.content, o.each = content, edits{gzipped}
			case 4, 5: // by one that keeps the lengths
				o.compress, o.plain, encoded = scramble, compressed%2 == 0, scramble
			}
			for i := 0; i < len(script) && i < 40; i += 2 {
				o.breaks = append(o.breaks, int(script[i]))
			}
			o.each = append(o.each, func(r *http.Response) {
				if i := 2*len(o.bodies) + 1; i < len(script) {
					behaviors[int(script[i])%len(behaviors)](r)
				}
			})
			req, want := httpfake.Request(t, t.Context(), "GET", nil), content
			switch from, to := int(from), int(to); {
			case 0 < from && from <= to && to < len(content):
				req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, to))
				want = content[from : to+1]
			case 0 < from && from < len(content):
				req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
				want = content[from:]
			}
			resp, err := continuing(o).RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			plain := len(want)
			if want = encoded(want); o.plain && resp.StatusCode == 206 {
				want = want[:min(len(want), plain)]
			}
			got, err := readToEnd(resp)
			if resp.StatusCode >= 400 {
				return
			}
			if !strings.HasPrefix(want, got) || err == nil && got != want {
				t.Errorf("read %q with the error %v of %q; requests for %q", got, err, want, o.ranges)
			}
			o.wantClosed(t)
		})
	})
}
