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
	"example.com/awsretry/interop/internal/kit"
)

// http.Client follows redirects that keep method and body. Each hop fails once,
// and is retried. A body that net/http cannot read twice is not sent to the
// second hop: the caller gets the redirect.
func TestRedirects(t *testing.T) {
	for i, want := range []string{"200 [/from /from /to /to]", "307 [/from /from]"} {
		kind := bodyKinds[1+i] // bytes, and a stream
		t.Run(kind.name, func(t *testing.T) {
			busy := kit.Respond(503, "busy")
			redirect := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/to", 307) }
			srv := kit.ServeScript(t, busy, redirect, busy, kit.Respond(200, "here"))
			req, _ := kind.request(t, t.Context(), srv.URL+"/from")
			resp := kit.Must[*http.Response](t)((&http.Client{Transport: kit.Retrying(srv.Base)}).Do(req))
			httpfake.ReadAll(t, resp)
			var seen []string
			for _, r := range srv.Requests() {
				seen = append(seen, r.URI)
				if r.Method != http.MethodPut || r.Body != string(content) {
					t.Errorf("%s %s with %d bytes", r.Method, r.URI, len(r.Body))
				}
			}
			if got := fmt.Sprint(resp.StatusCode, " ", seen); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// Errors and responses are compressed because net/http asks for it, or the
// caller. Only in the first case the error code is found.
func TestGzip(t *testing.T) {
	const throttling = `{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}`
	for _, tt := range []struct {
		name  string
		asked bool // by the caller, who decompresses
		want  string
	}{
		{"a throttling code", false, "200 {} after 3"},
		{"a throttling code that the caller decompresses", true, "400 " + throttling + " after 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			failed := kit.Respond(400, string(kit.Gzipped(throttling)), "Content-Encoding", "gzip")
			fine := kit.Respond(200, string(kit.Gzipped("{}")), "Content-Encoding", "gzip")
			srv := kit.ServeScript(t, failed, failed, fine)
			req := srv.Request(t, http.MethodPost, strings.NewReader("{}"))
			if tt.asked {
				req.Header.Set("Accept-Encoding", "gzip")
			}
			resp := kit.Must[*http.Response](t)(kit.Retrying(srv.Base).RoundTrip(req))
			defer resp.Body.Close()
			var body io.Reader = resp.Body
			if tt.asked {
				body = kit.Must[*gzip.Reader](t)(gzip.NewReader(resp.Body))
			}
			text, err := io.ReadAll(body)
			got := fmt.Sprintf("%d %s after %d", resp.StatusCode, text, len(srv.Requests()))
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
	}{{503, 3, true}, {407, 1, false}} {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			var asked atomic.Int32
			srv := serveBehindTunnel(t, echo, func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) < 3 {
					w.WriteHeader(tt.status)
					return
				}
				tunnel(w, r)
			})
			resp, err := kit.Retrying(srv.Base).RoundTrip(srv.Request(t, http.MethodPost, strings.NewReader("through")))
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
