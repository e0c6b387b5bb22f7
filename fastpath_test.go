package awsretry

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/internal/httpfake"
)

// Most requests take the fast path, also from an http.Client with a Timeout,
// which sets a deadline and the deprecated Request.Cancel.
func TestFastPath(t *testing.T) {
	get := func(ctx context.Context) *http.Request { return httpfake.Request(t, ctx, "GET", nil) }
	deadline, end := context.WithTimeout(t.Context(), time.Hour)
	defer end()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	open, closed := make(chan struct{}), make(chan struct{})
	close(closed)
	canceledBy := func(ctx context.Context, cancel chan struct{}) *http.Request {
		req := get(ctx)
		req.Cancel = cancel
		return req
	}
	pooled := new(http.Transport)
	pooled.RegisterProtocol("http", httpfake.Statuses(200))
	foreign := httpfake.Statuses(200)
	for _, tt := range []struct {
		name string
		base http.RoundTripper
		req  *http.Request
		want bool
		own  bool // in its own context
	}{
		{"GET", pooled, get(t.Context()), true, false},
		{"body in memory", pooled, httpfake.Request(t, t.Context(), "POST", strings.NewReader("x")), true, false},
		{"http.Client with a Timeout", pooled, canceledBy(deadline, open), true, false},
		{"Request.Cancel is closed", pooled, canceledBy(deadline, closed), false, false},
		{"options", pooled, get(WithMaxAttempts(t.Context(), 1)), false, false},
		{"canceled", pooled, get(canceled), false, false},
		{"foreign Base", foreign, get(t.Context()), true, true},
		{"foreign Base and a deadline", foreign, get(deadline), true, false},
	} {
		for _, mode := range []Mode{Standard, Adaptive} {
			t.Run(tt.name+", "+string(mode), func(t *testing.T) {
				tr := &Transport{Base: tt.base, Mode: mode}
				config, err := tr.resolve()
				if err != nil || !config.fastPathAllowed {
					t.Fatalf("%v, or the fast path is not allowed", err)
				}
				var fast fastPath
				fast.send(config, tt.req)
				if fast.sent() != tt.want || (fast.own != nil) != tt.own {
					t.Errorf("sent: %v, in a context of its own: %v", fast.sent(), fast.own != nil)
				}
			})
		}
	}
}

// The fast path of adaptive mode holds the partition until the end of the call,
// however that ends.
func TestFastPathReleasesItsPartition(t *testing.T) {
	for name, base := range map[string]httpfake.Base{
		"success": httpfake.Statuses(200),
		"retry":   httpfake.Statuses(500, 200),
		"panic":   func(*http.Request) (*http.Response, error) { panic("base") },
	} {
		tr := &Transport{Base: base, Mode: Adaptive, Backoff: Exponential{Initial: 1}}
		config, err := tr.resolve()
		if err != nil {
			t.Fatal(err)
		}
		config.foreign = false // as over an http.Transport
		httpfake.Recovered(func() { tr.RoundTrip(httpfake.Request(t, t.Context(), "GET", nil)) })
		config.partitions.Size = 1
		if config.partitions.Release(config.partitions.Get("other")); config.partitions.Find("other") == nil {
			t.Errorf("%s: a call holds the partition", name) // so that no other replaces it
		}
	}
}
