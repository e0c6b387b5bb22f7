package awsretry_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// The error of a rest that is longer than announced is not that of the break
// before it, which the rest has mended.
func TestRestThatIsTooLong(t *testing.T) {
	tr := &awsretry.Transport{Resume: true, Backoff: awsretry.BackoffFunc(noPause)}
	tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
		if req.Header.Get("Range") != "" {
			return httpfake.Response(req, 206, io.NopCloser(strings.NewReader("defgh")),
				"Etag", `"1"`, "Content-Range", "bytes 3-5/6"), nil
		}
		resp := httpfake.Response(req, 200, io.NopCloser(strings.NewReader("abc")), "Etag", `"1"`)
		resp.ContentLength = 6
		return resp, nil
	})
	resp, err := get(t, tr)
	if err != nil {
		t.Fatal(err)
	}
	const want = "awsretry: gave up after 1 attempt (permanent): the response body broke off after 6 bytes: " +
		"the body is longer than the 6 bytes that were announced"
	body, err := io.ReadAll(resp.Body)
	if string(body) != "abcdef" || err == nil || err.Error() != want || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v; want %q", body, err, want)
	}
}
