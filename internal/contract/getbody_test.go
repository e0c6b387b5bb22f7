package contract_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// getBodyOf returns a GetBody of a text.
func getBodyOf(text string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
}

// If GetBody fails, the response is returned, and the retry is not paid for.
func TestFailingGetBody(t *testing.T) {
	for name, getBody := range map[string]func() (io.ReadCloser, error){
		"error": func() (io.ReadCloser, error) { return nil, errors.New("gone") },
		"nil":   func() (io.ReadCloser, error) { return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			response := httpfake.NewBody(strings.NewReader("busy"))
			tr := retrying(func(req *http.Request) (*http.Response, error) {
				httpfake.Receive(req)
				return httpfake.Response(req, 503, response), nil
			})
			source := httpfake.NewBody(strings.NewReader("x"))
			req := httpfake.Request(t, t.Context(), "PUT", source)
			req.GetBody = getBody
			resp, err := tr.RoundTrip(req)
			if err != nil || contract.StopOf(resp, nil) != awsretry.StopBody || httpfake.ReadAll(t, resp) != "busy" {
				t.Errorf("%v, %v", resp, err)
			}
			if source.Closes() != 1 || contract.TokensOf(t, tr) != 500 {
				t.Errorf("closed %d times, %d tokens", source.Closes(), contract.TokensOf(t, tr))
			}
		})
	}
}

// A Base that fails may leave the caller's reader open. The retry has another
// one, and the first is closed.
func TestGetBodyWhoseFirstReaderStaysOpen(t *testing.T) {
	sends := 0
	tr := retrying(func(req *http.Request) (*http.Response, error) {
		if sends++; sends == 1 {
			return nil, errReset
		}
		httpfake.Receive(req)
		return httpfake.Response(req, 200, http.NoBody), nil
	})
	source := httpfake.NewBody(strings.NewReader("body"))
	req := httpfake.Request(t, t.Context(), "PUT", source)
	req.GetBody = getBodyOf("body")
	if _, err := tr.RoundTrip(req); err != nil || source.Closes() != 1 {
		t.Errorf("%v; closed %d times", err, source.Closes())
	}
}
