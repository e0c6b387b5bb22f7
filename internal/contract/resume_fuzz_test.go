package contract

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"example.com/awsretry"
)

// behaviors are what a service may do to its n-th response.
var behaviors = []func(*object, *http.Response){
	func(*object, *http.Response) {},
	func(_ *object, r *http.Response) { r.StatusCode = http.StatusServiceUnavailable },
	func(_ *object, r *http.Response) { r.StatusCode = http.StatusTooManyRequests },
	func(_ *object, r *http.Response) { r.StatusCode = http.StatusRequestedRangeNotSatisfiable },
	func(_ *object, r *http.Response) { r.ContentLength = -1 },
	func(_ *object, r *http.Response) { r.Header.Set("ETag", `"other"`) },
	func(_ *object, r *http.Response) { r.Header.Set("ETag", `W/"v1"`) },
	func(_ *object, r *http.Response) { r.Header.Del("Content-Range") },
	func(_ *object, r *http.Response) { r.Header.Set("Content-Range", "bytes 0-1/2") },
	func(_ *object, r *http.Response) { r.Uncompressed = true },
	func(o *object, r *http.Response) { // the whole object, of another version
		r.StatusCode = http.StatusOK
		r.Header.Del("Content-Range")
		r.Header.Set("ETag", `"v2"`)
		r.Body = &brokenBody{Reader: strings.NewReader(strings.Repeat("#", len(o.content)))}
		r.ContentLength = int64(len(o.content))
	},
}

// FuzzResume reads an object through any breaks and any behavior of the
// service: what is read is all of the object, or a part from its beginning and
// an error.
func FuzzResume(f *testing.F) {
	f.Add("abcdefghijklmnopqrstuvwxyz", []byte{3, 0, 4, 1, 0, 2})
	f.Add("0123456789", []byte{0, 0, 0, 0, 0, 10})
	f.Fuzz(func(t *testing.T, content string, script []byte) {
		if content == "" || len(content) > 1000 || strings.HasPrefix(content, "#") {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			o := &object{content: content, etag: `"v1"`}
			for i := 0; i < len(script) && i < 40; i += 2 {
				o.breaks = append(o.breaks, int(script[i]))
			}
			first := true // until a response says which version it is
			o.change = func(n int, r *http.Response) {
				if 2*n+1 < len(script) {
					choice := int(script[2*n+1]) % len(behaviors)
					if first && choice == len(behaviors)-1 {
						choice = 0
					}
					behaviors[choice](o, r)
				}
				first = first && r.StatusCode != http.StatusOK
			}
			tr := &awsretry.Transport{Base: o, Resume: true, Policy: retryBroken}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://service.example/object", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := tr.RoundTrip(req)
			if err != nil || resp.StatusCode != http.StatusOK {
				return
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if !strings.HasPrefix(content, string(got)) || err == nil && string(got) != content {
				t.Errorf("read %q with the error %v of %q; requests for %q", got, err, content, fmt.Sprint(o.ranges))
			}
		})
	})
}
