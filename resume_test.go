package awsretry_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// The tokens of a request for the rest of a body are put back if it is not sent.
func TestUnsentRequestForTheRest(t *testing.T) {
	errBroken, errNoKey := errors.New("connection reset"), errors.New("no key")
	tr := &awsretry.Transport{
		Resume: true,
		Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			body := io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(errBroken))
			return httpfake.Response(req, 200, io.NopCloser(body), "Etag", `"1"`), nil
		}),
		Backoff: awsretry.BackoffFunc(noPause),
		Prepare: func(_ *http.Request, attempt int) error {
			if attempt > 1 {
				return errNoKey
			}
			return nil
		},
	}
	resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "GET", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, errBroken) || !errors.Is(err, errNoKey) {
		t.Errorf("%v, want the errors of the body and of Prepare", err)
	}
	if state, _ := tr.State("service.example"); state.Tokens != 500 {
		t.Errorf("%d tokens, want 500", state.Tokens)
	}
}

// A Read of a body that can be continued costs no allocation.
func TestReadsOfAResumableBodyDoNotAllocate(t *testing.T) {
	tr := &awsretry.Transport{Resume: true, Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
		return httpfake.Response(req, 200, io.NopCloser(httpfake.Zeros), "Etag", `"1"`), nil
	})}
	resp, err := tr.RoundTrip(newRequest(t, "GET", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	p := make([]byte, 100)
	if n := testing.AllocsPerRun(1000, func() { resp.Body.Read(p) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The error of a rest that is longer than announced is not that of the break
// before it, which the rest has mended.
func TestRestThatIsTooLong(t *testing.T) {
	sent := 0
	tr := &awsretry.Transport{
		Resume:  true,
		Backoff: awsretry.BackoffFunc(noPause),
		Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			if sent++; sent == 1 {
				resp := httpfake.Response(req, 200, io.NopCloser(strings.NewReader("abc")), "Etag", `"1"`)
				resp.ContentLength = 6
				return resp, nil
			}
			return httpfake.Response(req, 206, io.NopCloser(strings.NewReader("defgh")),
				"Etag", `"1"`, "Content-Range", "bytes 3-5/6"), nil
		}),
	}
	resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "GET", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	const want = "awsretry: gave up after 1 attempt (permanent): the response body broke off after 6 bytes: " +
		"the body is longer than the 6 bytes that were announced"
	body, err := io.ReadAll(resp.Body)
	if string(body) != "abcdef" || err == nil || err.Error() != want || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v; want %q", body, err, want)
	}
}
