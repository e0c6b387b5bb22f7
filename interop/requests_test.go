package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"example.com/awsretry"
)

// briefly keeps the delays of tests in real time short.
var briefly = awsretry.Exponential{Initial: time.Millisecond, Max: 10 * time.Millisecond}

func retrying(base http.RoundTripper) *awsretry.Transport {
	return &awsretry.Transport{Base: base, Backoff: briefly}
}

func newRequest(t testing.TB, ctx context.Context, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// getText returns the body of a response whose status is 200. It closes any
// other response unread.
func getText(ctx context.Context, client *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", resp.StatusCode)
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// hostOf returns the host and port of a URL.
func hostOf(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// isError reports whether an error is an E that fits.
func isError[E error](fits func(E) bool) func(error) bool {
	return func(err error) bool {
		var e E
		return errors.As(err, &e) && fits(e)
	}
}

// isTimeout reports whether an error calls itself a time-out, as net.Error
// does.
func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}
