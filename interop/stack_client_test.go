package interop

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// http.Client.Timeout ends an attempt, and the reading of a response. A delay
// that it would cut short is not begun.
func TestClientTimeout(t *testing.T) {
	slowBody := func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "half of")
		http.NewResponseController(w).Flush()
		hang(w, r)
	}
	const timeout = 10 * time.Second
	busy := respond(503, "busy")
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		change  func(*awsretry.Transport)
		status  int // 0: an error that is a time-out
		sent    int32
		reading bool // the error comes while the response is read
		took    time.Duration
	}{
		{name: "in an attempt", handler: hang, sent: 1, took: timeout},
		{
			name: "in the second attempt", handler: hang, sent: 2, took: timeout,
			change: func(tr *awsretry.Transport) { tr.AttemptTimeout = 6 * time.Second },
		},
		{name: "in the response body", handler: slowBody, status: 200, sent: 1, reading: true, took: timeout},
		{
			name: "in the delay", handler: busy, status: 503, sent: 1,
			change: func(tr *awsretry.Transport) {
				tr.Backoff = awsretry.Exponential{Initial: time.Hour, Max: time.Hour, Jitter: awsretry.NoJitter}
			},
		},
		{name: "in Retry-After", handler: respond(503, "busy", "Retry-After", "30"), status: 503, sent: 1},
		{
			name: "not", handler: busy, status: 503, sent: 3, took: 3 * time.Second,
			change: func(tr *awsretry.Transport) { tr.Backoff = awsretry.Exponential{Jitter: awsretry.NoJitter} },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int32
				srv := httpfake.Serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
					sent.Add(1)
					tt.handler(w, r)
				})
				tr := &awsretry.Transport{Base: srv.Base, Backoff: awsretry.Exponential{Initial: 1, Max: 1}}
				if tt.change != nil {
					tt.change(tr)
				}
				start := time.Now()
				resp, err := (&http.Client{Transport: tr, Timeout: timeout}).Get(srv.URL)
				if err == nil {
					_, readErr := io.ReadAll(resp.Body)
					resp.Body.Close()
					if tt.reading {
						err = readErr
					} else if readErr != nil {
						t.Errorf("reading the response: %v", readErr)
					}
					if resp.StatusCode != tt.status {
						t.Errorf("status %d, want %d", resp.StatusCode, tt.status)
					}
				}
				if fails := tt.status == 0 || tt.reading; fails != (err != nil) || fails && !isTimeout(err) {
					t.Errorf("the error is %v, want a time-out: %t", err, fails)
				}
				if took := time.Since(start).Round(time.Millisecond); took != tt.took || sent.Load() != tt.sent {
					t.Errorf("%d attempts in %v, want %d in %v", sent.Load(), took, tt.sent, tt.took)
				}
			})
		})
	}
}

// Errors and responses are compressed because net/http asks for it, or the
// caller. Only in the first case the error code is found.
func TestGzip(t *testing.T) {
	compress := func(text string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		io.WriteString(w, text)
		w.Close()
		return b.Bytes()
	}
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
					w.Write(compress(throttling))
					return
				}
				w.Write(compress(item))
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

// A cookie that a failed attempt sets is sent from the next request on, as
// without retries. The attempts of one request are the same.
func TestCookies(t *testing.T) {
	var cookies []string
	srv := httpfake.Serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
		cookies = append(cookies, r.Header.Get("Cookie"))
		http.SetCookie(w, &http.Cookie{Name: "n", Value: fmt.Sprint(len(cookies))})
		if len(cookies) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: retrying(srv.Base), Jar: jar}
	for range 2 {
		resp, err := client.Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if got := strings.Join(cookies, "|"); got != "||n=2" {
		t.Errorf("the requests' cookies are %q, want none, none, and the last response's", got)
	}
}
