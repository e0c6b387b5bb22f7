package awsretry_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

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
		Backoff: awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return 0 }),
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
