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

// readBroken reads a body of 6 bytes that breaks off after 3, and goes on with rest.
func readBroken(t *testing.T, tr *awsretry.Transport, errBroken error, rest string) (body string, err error) {
	t.Helper()
	broken := io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(errBroken))
	tr.Resume, tr.Backoff = true, awsretry.BackoffFunc(noPause)
	tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
		if req.Header.Get("Range") != "" {
			return httpfake.Response(req, 206, io.NopCloser(strings.NewReader(rest)),
				"Etag", `"1"`, "Content-Range", "bytes 3-5/6"), nil
		}
		return httpfake.Response(req, 200, io.NopCloser(broken), "Etag", `"1"`), nil
	})
	resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "GET", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return string(all), err
}

// The tokens of a request for the rest of a body are put back if it is not sent.
func TestUnsentRequestForTheRest(t *testing.T) {
	errBroken, errNoKey := errors.New("connection reset"), errors.New("no key")
	tr := &awsretry.Transport{Prepare: func(_ *http.Request, attempt int) error {
		if attempt > 1 {
			return errNoKey
		}
		return nil
	}}
	if _, err := readBroken(t, tr, errBroken, "def"); !errors.Is(err, errBroken) || !errors.Is(err, errNoKey) {
		t.Errorf("%v, want the errors of the body and of Prepare", err)
	}
	if state, _ := tr.State("service.example"); state.Tokens != 500 {
		t.Errorf("%d tokens, want 500", state.Tokens)
	}
}

// The error of a rest that is longer than announced is not that of the break
// before it, which the rest has mended.
func TestRestThatIsTooLong(t *testing.T) {
	const want = "awsretry: gave up after 1 attempt (permanent): the response body broke off after 6 bytes: " +
		"the body is longer than the 6 bytes that were announced"
	body, err := readBroken(t, new(awsretry.Transport), io.ErrUnexpectedEOF, "defgh")
	if body != "abcdef" || err == nil || err.Error() != want || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v; want %q", body, err, want)
	}
}
