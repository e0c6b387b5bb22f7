package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// A POST or PATCH without a key gets one, the same in each attempt, and is
// retried by IdempotentOnly. The caller's request is not changed.
func TestIdempotencyKey(t *testing.T) {
	sign := func(req *http.Request) { req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=x") }
	prepare := prepares(1, func(req *http.Request) error {
		if req.Header.Get("Idempotency-Key") != "key 1" || req.Header.Get("Authorization") == "" {
			t.Errorf("Prepare sees %v", req.Header)
		}
		return nil
	})
	thrice := []string{"key 1", "key 1", "key 1"}
	for _, tt := range []struct {
		name, method string
		request      func(*http.Request)
		change       func(*transport)
		want         []string // of the attempts
	}{
		{"POST", "POST", nil, nil, thrice},
		{"PATCH", "PATCH", nil, nil, thrice},
		{"PUT", "PUT", nil, nil, []string{"", "", ""}},
		{"its own key", "POST", func(r *http.Request) { r.Header.Set("Idempotency-Key", "own") }, nil,
			[]string{"own", "own", "own"}},
		{"its own X- key", "POST", func(r *http.Request) { r.Header.Set("X-Idempotency-Key", "own") }, nil,
			[]string{"", "", ""}},
		{"no header", "POST", func(r *http.Request) { r.Header = nil }, nil, thrice},
		{"signed", "POST", sign, nil, []string{""}},
		{"signed in the URL", "POST", func(r *http.Request) { r.URL.RawQuery = "X-Amz-Signature=1" }, nil, []string{""}},
		{"signed again", "POST", sign, prepare, thrice},
		{"no key", "POST", nil, func(tr *transport) { tr.IdempotencyKey = func(*http.Request) string { return "" } },
			[]string{""}},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			var got, seen []string
			keys := 0
			tr := retrying(func(req *http.Request) (*http.Response, error) {
				got = append(got, req.Header.Get("Idempotency-Key"))
				return httpfake.Empty(503, req), nil
			})
			tr.Policy = awsretry.IdempotentOnly(nil)
			tr.IdempotencyKey = func(*http.Request) string { keys++; return fmt.Sprint("key ", keys) }
			tr.Observe = func(a awsretry.Attempt) { seen = append(seen, a.IdempotencyKey) }
			if tt.change != nil {
				tt.change(tr)
			}
			req := httpfake.Request(t, t.Context(), tt.method, strings.NewReader("x"))
			if tt.request != nil {
				tt.request(req)
			}
			before := req.Header.Clone()
			resp := send(tr, req).response(t)
			if !slices.Equal(got, tt.want) || keys > 1 || len(req.Header) != len(before) {
				t.Errorf("sent %q with %d keys made; the caller's header is %v", got, keys, req.Header)
			}
			if tt.want[0] == "key 1" && (!slices.Equal(seen, tt.want) || resp.Request.Header.Get("Idempotency-Key") != "key 1") {
				t.Errorf("observed %q, and in the response %v", seen, resp.Request.Header)
			}
		})
	}
}

// The redirects that http.Client follows have the key of the first request.
func TestIdempotencyKeyOfRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		tr := &transport{IdempotencyKey: awsretry.RandomKey, Backoff: delayed(0)}
		tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
			got = append(got, req.Header.Get("Idempotency-Key"))
			switch {
			case len(got)%2 == 1:
				return httpfake.Empty(503, req), nil
			case len(got) < 6:
				return httpfake.Response(req, 307, http.NoBody, "Location", "/next"), nil
			}
			return httpfake.Empty(200, req), nil
		})
		resp, err := (&http.Client{Transport: tr}).PostForm("http://service.example/", url.Values{"a": {"b"}})
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
		if len(got) != 6 || !uuid.MatchString(got[0]) || len(slices.Compact(got)) != 1 {
			t.Errorf("%q", got)
		}
		if a, b := awsretry.RandomKey(nil), awsretry.RandomKey(nil); a == b {
			t.Errorf("%s twice", a)
		}
	})
}

// A Base may try several transports. Of one that is not traced, only the Read of the
// body shows that something was sent.
func TestBaseOfSeveralTransports(t *testing.T) {
	unreachable := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errReset }}
	for _, body := range []string{"pay", ""} {
		sends := 0
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			probe := req.Clone(req.Context())
			probe.Body, probe.ContentLength = nil, 0
			if _, err := unreachable.RoundTrip(probe); err == nil {
				t.Error("it was reached")
			}
			sends++
			httpfake.Receive(req)
			return nil, errors.New("quic: connection lost")
		})
		tr.Policy = awsretry.IdempotentOnly(nil)
		var content io.Reader
		if body != "" {
			content = strings.NewReader(body)
		}
		req := httpfake.Request(t, t.Context(), "POST", content)
		req.URL.Scheme = "https"
		if r := send(tr, req); sends != 1 || r.err == nil {
			t.Errorf("%q: sent %d times, %v", body, sends, r)
		}
	}
}
