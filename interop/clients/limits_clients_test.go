package clients

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"example.com/awsretry/services"
	"github.com/google/go-github/v75/github"
)

// go-github calls a service that announces its limit. No call fails, because it
// waits until the service has room for it. Without the limits calls fail.
//
// go-github keeps what is left, too: after a response with 0 it returns errors
// until the reset and sends nothing, so that the Transport cannot wait. Set
// Client.DisableRateLimitCheck, or let one of the contexts of go-github's switch
// the check off or make it wait, or keep a Reserve so that 0 is never read.
func TestGithubAwaitsLimits(t *testing.T) {
	const calls, quota, window = 40, 10, time.Minute
	plain := context.Background()
	sleeping := context.WithValue(plain, github.SleepUntilPrimaryRateLimitResetWhenRateLimited, true)
	announced := awsretry.RateLimitConfig{Limits: awsretry.ReadLimits}
	reserving := awsretry.RateLimitConfig{Limits: awsretry.ReadLimits, Reserve: .2}
	for _, tt := range []struct {
		name      string
		ctx       context.Context
		unchecked bool // by go-github
		limits    awsretry.RateLimitConfig
		fails     bool
	}{
		{"no check", plain, true, announced, false},
		{"check waits", sleeping, false, announced, false},
		{"check and a reserve", plain, false, reserving, false},
		{"check", plain, false, announced, true},
		{"limits not read", plain, true, awsretry.RateLimitConfig{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := &meteredService{quota: quota, window: window}
				srv := httpfake.Serve(t, "HTTP/1.1", service.handle)
				tr := &awsretry.Transport{
					Base: srv.Base, Policy: services.GitHub.Policy, Mode: awsretry.Adaptive, RateLimit: tt.limits,
				}
				if tt.limits.Limits == nil {
					tr.MaxAttempts = 1
				}
				defer tr.CloseIdleConnections()
				gh := newGithub(&http.Client{Transport: tr}, srv.URL, func(gh *github.Client) {
					gh.DisableRateLimitCheck = tt.unchecked
				})
				errs := make([]error, calls)
				start := time.Now()
				kit.InParallel(calls, 4, func(n int) { _, _, errs[n] = gh.Repositories.Get(tt.ctx, "octo", "hello") })
				took := time.Since(start)

				refused := isError(func(e *github.RateLimitError) bool { return e.Rate.Remaining == 0 })
				if failed := slices.ContainsFunc(errs, refused); failed != tt.fails {
					t.Errorf("the calls return %v", errs)
				}
				most := time.Duration(1.5 * calls / (quota * (1 - tt.limits.Reserve)) * float64(window))
				if !tt.fails && (service.served != calls || service.throttled > 0 || took > most) {
					t.Errorf("%d served and %d throttled of %d in %v", service.served, service.throttled, calls, took)
				}
			})
		})
	}
}

// A meteredService announces its limit as GitHub does. The whole quota comes back
// with each window.
type meteredService struct {
	quota  int
	window time.Duration

	mu                sync.Mutex // guards the fields below
	left              int
	began             time.Time // the window
	served, throttled int
}

func (m *meteredService) handle(w http.ResponseWriter, r *http.Request) {
	time.Sleep(50 * time.Millisecond)
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); now.Sub(m.began) >= m.window {
		m.left, m.began = m.quota, now.Truncate(time.Second)
	}
	handle := kit.Respond(403, `{"message": "API rate limit exceeded"}`)
	if m.left > 0 {
		m.left--
		m.served++
		handle = kit.Respond(200, `{"full_name": "octo/hello"}`)
	} else {
		m.throttled++
	}
	w.Header().Set("X-RateLimit-Limit", fmt.Sprint(m.quota))
	w.Header().Set("X-RateLimit-Remaining", fmt.Sprint(m.left))
	w.Header().Set("X-RateLimit-Used", fmt.Sprint(m.quota-m.left))
	w.Header().Set("X-RateLimit-Reset", fmt.Sprint(m.began.Add(m.window).Unix()))
	w.Header().Set("X-RateLimit-Resource", "core")
	handle(w, r)
}
