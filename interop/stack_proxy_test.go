package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
)

// TestConnectRefusals has a proxy refuse CONNECT: for now, which is worth another attempt, or for good.
func TestConnectRefusals(t *testing.T) {
	for _, c := range []struct {
		status int
		sent   int64
		ok     bool
	}{{503, 3, true}, {502, 3, true}, {429, 3, true}, {407, 1, false}, {403, 1, false}} {
		t.Run(fmt.Sprint(c.status), func(t *testing.T) {
			server := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }), func(s *httptest.Server) { s.StartTLS() })
			var asked atomic.Int64
			proxy := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) < 3 {
					w.WriteHeader(c.status)
					return
				}
				tunnel(w, r)
			}), nil)
			pool := trusting(t, server)
			pool.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }
			resp, err := (&http.Client{Transport: retrying(pool)}).Post(server.URL, "text/plain", strings.NewReader("through"))
			if err == nil {
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if string(body) != "through" {
					t.Errorf("the answer is %q", body)
				}
			}
			if (err == nil) != c.ok || asked.Load() != c.sent {
				t.Errorf("%v after %d CONNECTs, want %d", err, asked.Load(), c.sent)
			}
		})
	}
}

// TestUntrusted shows that a server whose certificate is not trusted is asked once.
func TestUntrusted(t *testing.T) {
	server := start(t, http.NotFoundHandler(), func(s *httptest.Server) { s.StartTLS() })
	attempts := 0
	transport := retrying(newPool(t))
	transport.Observe = func(awsretry.Attempt) { attempts++ }
	_, err := (&http.Client{Transport: transport}).Get(server.URL)
	var failure *awsretry.Error
	if !errors.As(err, &failure) || failure.Stop != awsretry.StopPermanent || attempts != 1 {
		t.Errorf("%v after %d attempts", err, attempts)
	}
}

// TestCancelInStack has the caller go away in a pause, below oauth2 and otelhttp as above them: it ends at once, with the cause.
func TestCancelInStack(t *testing.T) {
	for name, build := range stacks() {
		if build.elsewhere {
			continue // its pauses are not the caller's
		}
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			client, url := build.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sent.Add(1)
				w.Header().Set("Retry-After", "20")
				w.WriteHeader(http.StatusServiceUnavailable)
			}))
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			gone := errors.New("the caller has gone")
			ctx = awsretry.WithObserver(ctx, func(awsretry.Attempt) { cancel(gone) })
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err = client.Do(req)
			if !errors.Is(err, gone) || !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v", err)
			}
			if took := time.Since(began); took > 5*time.Second || sent.Load() != 1 {
				t.Errorf("%d attempts in %v", sent.Load(), took)
			}
		})
	}
}
