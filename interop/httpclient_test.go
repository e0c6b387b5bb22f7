package interop

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"example.com/awsretry/internal/httpfake"
)

// http.Client follows redirects that keep method and body. Each hop fails once,
// and is retried. A body that net/http cannot read twice is not sent to the
// second hop: the caller gets the redirect.
func TestRedirects(t *testing.T) {
	for _, status := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		for i, want := range []string{"200 [/from /from /to /to]", fmt.Sprint(status, " [/from /from]")} {
			kind := bodyKinds[1+i] // bytes, and a stream
			t.Run(fmt.Sprint(status, " ", kind.name), func(t *testing.T) {
				busy := respond(503, "busy")
				srv := serveScript(t, busy, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/to", status) },
					busy, respond(200, "here"))
				req, _ := kind.request(t, t.Context(), srv.URL+"/from")
				resp, err := (&http.Client{Transport: retrying(srv.Base)}).Do(req)
				if err != nil {
					t.Fatal(err)
				}
				httpfake.ReadAll(t, resp)
				var seen []string
				for _, r := range srv.requests() {
					seen = append(seen, r.uri)
					if r.method != http.MethodPut || r.body != string(content) {
						t.Errorf("%s %s with %d bytes", r.method, r.uri, len(r.body))
					}
				}
				if got := fmt.Sprint(resp.StatusCode, " ", seen); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		}
	}
}

// Errors and responses are compressed because net/http asks for it, or the
// caller. Only in the first case the error code is found.
func TestGzip(t *testing.T) {
	const throttling = `{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}`
	for _, tt := range []struct {
		name   string
		asked  bool // by the caller, who decompresses
		status int  // of the failures; a 400 is retried only for its code
		want   string
	}{
		{"a throttling code", false, 400, "200 {} after 3"},
		{"a throttling code that the caller decompresses", true, 400, "400 " + throttling + " after 1"},
		{"a status", true, 503, "200 {} after 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			failed := respond(tt.status, string(gzipped(throttling)), "Content-Encoding", "gzip")
			srv := serveScript(t, failed, failed, respond(200, string(gzipped("{}")), "Content-Encoding", "gzip"))
			req := srv.Request(t, http.MethodPost, strings.NewReader("{}"))
			if tt.asked {
				req.Header.Set("Accept-Encoding", "gzip")
			}
			resp, err := retrying(srv.Base).RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var body io.Reader = resp.Body
			if tt.asked {
				if body, err = gzip.NewReader(resp.Body); err != nil {
					t.Fatal(err)
				}
			}
			text, err := io.ReadAll(body)
			got := fmt.Sprintf("%d %s after %d", resp.StatusCode, text, len(srv.requests()))
			if err != nil || got != tt.want {
				t.Errorf("got %s, want %s (%v)", got, tt.want, err)
			}
		})
	}
}

// A proxy refuses CONNECT: for now, which is worth a retry, or for good.
func TestConnectRefusals(t *testing.T) {
	for _, tt := range []struct {
		status int
		sent   int32
		ok     bool
	}{{503, 3, true}, {502, 3, true}, {429, 3, true}, {407, 1, false}, {403, 1, false}} {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			var asked atomic.Int32
			srv := serveBehindTunnel(t, echo, func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) < 3 {
					w.WriteHeader(tt.status)
					return
				}
				tunnel(w, r)
			})
			resp, err := retrying(srv.Base).RoundTrip(srv.Request(t, http.MethodPost, strings.NewReader("through")))
			if err == nil {
				if body := httpfake.ReadAll(t, resp); body != "through" {
					t.Errorf("%q came back", body)
				}
			}
			if (err == nil) != tt.ok || asked.Load() != tt.sent {
				t.Errorf("%v after %d CONNECTs, want %d", err, asked.Load(), tt.sent)
			}
		})
	}
}
