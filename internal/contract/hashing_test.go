package contract_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"example.com/awsretry/internal/httpfake"
)

// What signs a request reads what GetBody returns for a hash, and leaves the
// request's own body to be sent. After that GetBody still works.
func TestHashOfGetBody(t *testing.T) {
	const text = "hello, world"
	newBody := func() io.ReadCloser { return httpfake.NewBody(strings.NewReader(text)) }
	for name, attach := range map[string]func(*testing.T, *http.Request){
		"in memory": func(_ *testing.T, req *http.Request) {
			req.Body, req.GetBody = io.NopCloser(strings.NewReader(text)), getBodyOf(text)
		},
		"new readers": func(_ *testing.T, req *http.Request) {
			req.Body, req.GetBody = newBody(), func() (io.ReadCloser, error) { return newBody(), nil }
		},
		"one reader": func(t *testing.T, req *http.Request) {
			body := newRewound(text)
			body.attachTo(req)
			t.Cleanup(func() { body.check(t) })
		},
		"one-shot": func(_ *testing.T, req *http.Request) { req.Body = newBody() },
		"file":     func(t *testing.T, req *http.Request) { req.Body = fileAt(t, text, 0) },
	} {
		for _, hook := range []string{"Prepare", "Base"} {
			for _, closes := range []bool{true, false} {
				hash := func(t *testing.T, req *http.Request) {
					t.Helper()
					again, err := req.GetBody()
					if err != nil {
						t.Fatal(err)
					}
					if got, err := io.ReadAll(again); string(got) != text || err != nil {
						t.Errorf("the hash is of %q, %v", got, err)
					}
					if closes {
						again.Close()
					}
				}
				t.Run(name+", in "+hook, func(t *testing.T) {
					sends := 0
					tr := retrying(func(req *http.Request) (*http.Response, error) {
						if sends++; hook == "Base" {
							hash(t, req)
						}
						io.CopyN(io.Discard, req.Body, 3)
						req.Body.Close()
						again, err := req.GetBody() // as net/http sends it over another connection
						if err != nil {
							t.Fatal(err)
						}
						req.Body = again
						got, err := httpfake.Receive(req)
						if got != text || err != nil {
							t.Errorf("attempt %d sends %q, %v", sends, got, err)
						}
						if sends == 1 {
							return httpfake.Response(req, 503, http.NoBody), err
						}
						return httpfake.Response(req, 200, http.NoBody), err
					})
					if hook == "Prepare" {
						tr.Prepare = func(req *http.Request, _ int) error { hash(t, req); return nil }
					}
					req := httpfake.Request(t, t.Context(), "PUT", nil)
					attach(t, req)
					if resp, err := tr.RoundTrip(req); err != nil || sends != 2 {
						t.Errorf("%v, %v after %d attempts", resp, err, sends)
					}
				})
			}
		}
	}
}
