package rows

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
)

// plain returns a call of a client that makes that many attempts, alone and over a
// Transport.
func plain(method string, alone, over int) call {
	return call{name: "plain", server: serving(200, `{}`), do: func(ctx context.Context, s setting) error {
		attempts := alone
		if s.over {
			attempts = over
		}
		err := errors.New("no attempt")
		for range attempts {
			wait := time.Second
			req, _ := http.NewRequestWithContext(ctx, method, s.url, nil) // the URL is a server's of a test
			var resp *http.Response
			if resp, err = s.Do(req); err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					return nil
				}
				err = fmt.Errorf("status %d", resp.StatusCode)
				if seconds, e := time.ParseDuration(resp.Header.Get("Retry-After") + "s"); e == nil {
					wait = seconds
				}
			}
			time.Sleep(wait)
		}
		return err
	}}
}

// The scenes find what is lost, and nothing if nothing is.
func TestFindings(t *testing.T) {
	retryAll := func(a *awsretry.Attempt) awsretry.Class {
		if a.Response == nil || a.Response.StatusCode >= 400 {
			return awsretry.Transient
		}
		return awsretry.Success
	}
	retrying := func(tr *awsretry.Transport) { tr.Policy = retryAll }
	for _, tt := range []struct {
		name      string
		call      call
		transport func(*awsretry.Transport)
		finds     string // "" means nothing
	}{
		{"a client that retries nothing", plain("GET", 1, 1), nil, ""},
		{"a client that retries all", plain("GET", 3, 1), retrying, ""},
		{"two loops", plain("GET", 3, 3), retrying, "503 for a minute: 9 requests of GET / instead of 3"},
		{"no loop", plain("GET", 3, 1), func(tr *awsretry.Transport) { tr.MaxAttempts = 1 }, "503 twice: fails"},
		{"a POST that is sent again", plain("POST", 1, 1), nil, "executed and lost: POST / is executed 2 times instead of 1"},
		{"no delay that is asked for", plain("GET", 3, 1), func(tr *awsretry.Transport) { tr.MaxRetryAfter = -1 }, "503 with Retry-After: waits"},
	} {
		m := row{calls: []call{tt.call}, transport: tt.transport}.measure(t)
		all := strings.Join(m.findings, "\n")
		if tt.finds == "" && all != "" || !strings.Contains(all, tt.finds) {
			t.Errorf("%s: found\n%s\nwant %q", tt.name, all, tt.finds)
		}
	}
}
