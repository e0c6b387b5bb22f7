package interop

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// http.Client follows redirects that keep method and body. Each hop fails once,
// and is retried. A body that net/http cannot read twice is not sent to the
// second hop: the caller gets the redirect.
func TestRedirects(t *testing.T) {
	for _, status := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		for _, kind := range bodyKinds[1:3] {
			t.Run(fmt.Sprint(status, " ", kind.name), func(t *testing.T) {
				seen := make(map[string]int)
				srv := httpfake.Serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					if err != nil || !bytes.Equal(body, content) || r.Method != http.MethodPut {
						t.Errorf("%s %s: %d bytes, %v", r.Method, r.URL, len(body), err)
					}
					seen[r.URL.Path]++
					switch {
					case seen[r.URL.Path] == 1:
						w.WriteHeader(http.StatusServiceUnavailable)
					case r.URL.Path == "/from":
						http.Redirect(w, r, "/to", status)
					default:
						io.WriteString(w, "here")
					}
				})
				client := &http.Client{Transport: retrying(srv.Base)}
				req, _ := kind.request(t, t.Context(), srv.URL+"/from")
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				text := httpfake.ReadAll(t, resp)
				if kind.name == "stream" {
					if resp.StatusCode != status || seen["/from"] != 2 || seen["/to"] != 0 {
						t.Errorf("status %d, requests %v", resp.StatusCode, seen)
					}
					return
				}
				if resp.StatusCode != 200 || text != "here" || seen["/from"] != 2 || seen["/to"] != 2 {
					t.Errorf("status %d %q, requests %v", resp.StatusCode, text, seen)
				}
			})
		}
	}
}

// Errors and responses are compressed because net/http asks for it, or the
// caller. Only in the first case the error code is found.
func TestGzip(t *testing.T) {
	const (
		throttling = `{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException", "message": "…"}`
		item       = `{"Item": {}}`
	)
	for _, tt := range []struct {
		name   string
		asked  bool // by the caller, who decompresses
		status int  // of the failures; a 400 is retried only for its code
		sent   int32
		final  int
		want   string
	}{
		{"a throttling code", false, 400, 3, 200, item},
		{"a throttling code that the caller decompresses", true, 400, 1, 400, throttling},
		{"a status", true, 503, 3, 200, item},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var sent atomic.Int32
			srv := httpfake.Serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
				if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
					t.Error("the request does not accept gzip")
				}
				w.Header().Set("Content-Encoding", "gzip")
				w.Header().Set("Content-Type", "application/x-amz-json-1.0")
				if sent.Add(1) < 3 {
					w.WriteHeader(tt.status)
					w.Write(gzipped(throttling))
					return
				}
				w.Write(gzipped(item))
			})
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
			got, err := io.ReadAll(body)
			if err != nil || resp.StatusCode != tt.final || string(got) != tt.want || sent.Load() != tt.sent {
				t.Errorf("status %d, %q, %v after %d attempts; want %d, %q after %d",
					resp.StatusCode, got, err, sent.Load(), tt.final, tt.want, tt.sent)
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

// A request to a server whose certificate is not trusted is sent once.
func TestUntrustedCertificate(t *testing.T) {
	srv := httpfake.ServeTCP(t, "HTTP/1.1 over TLS", echo)
	attempts := 0
	tr := retrying(newPool(t))
	tr.Observe = func(awsretry.Attempt) { attempts++ }
	_, err := tr.RoundTrip(srv.Request(t, http.MethodGet, nil))
	var failure *awsretry.Error
	if !errors.As(err, &failure) || failure.Stop != awsretry.StopPermanent || attempts != 1 {
		t.Errorf("%v after %d attempts", err, attempts)
	}
}
