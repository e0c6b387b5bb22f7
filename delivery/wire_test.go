package delivery

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.com/awsretry/delivery/letters"
	"example.com/awsretry/internal/httpfake"
)

// The server responds before it has read the body, which is longer than the
// connection's buffers. In the end every byte arrives.
func TestFromStreamToDiskToServer(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", maxKept/16)
	for name, kind := range bodyKinds {
		t.Run(name, func(t *testing.T) {
			healthy := false
			var got []httpfake.Sent
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if !healthy {
					http.Error(w, "not now", http.StatusServiceUnavailable)
					return
				}
				s, err := receive(req)
				if err != nil {
					t.Error(err)
				}
				got = append(got, s)
			}))
			defer server.Close()
			dir := t.TempDir()
			policy := parse(t, `{
				"healthyRetryPolicy": {"numRetries": 2, "numNoDelayRetries": 2},
				"requestPolicy": {"headerContentType": "application/json"}
			}`)
			tr := &Transport{Policy: policy, DeadLetter: (&letters.Dir{Path: dir}).Put, Base: server.Client().Transport}
			req, _ := kind(t, text)
			req.URL.Host, req.URL.RawQuery, req.Host = strings.TrimPrefix(server.URL, "http://"), "a=b", ""
			req.Header.Set("X-Custom", "value")
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(resp.Body); resp.StatusCode != 503 || string(body) != "not now\n" || err != nil {
				t.Errorf("got %d %q, %v", resp.StatusCode, body, err)
			}
			resp.Body.Close()

			healthy = true
			done, err := (&letters.Dir{Path: dir}).Redrive(t.Context(), server.Client().Transport, letters.RedriveOptions{})
			if err != nil || done != (letters.Counts{Delivered: 1}) {
				t.Fatalf("got %+v, %v", done, err)
			}
			if len(got) != 1 || got[0].Body != text || got[0].URL != "/?a=b" ||
				got[0].Header.Get("X-Custom") != "value" ||
				got[0].Header.Get("Content-Type") != "application/json" {
				t.Errorf("%d requests arrived", len(got))
			}
			if left := entries(t, dir); len(left) > 0 {
				t.Errorf("%s is left", left)
			}
		})
	}
}
