package clients

import (
	"context"
	"fmt"
	"io"
	"math"
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

// SDKs call services that announce their limits. No call fails, because it waits
// until the service has room for it, whether or not the SDK has retries of its
// own. Without the limits calls fail.
//
// go-github keeps what is left, too: after a response with 0 it returns errors
// until the reset and sends nothing, so that the Transport cannot wait. Set
// Client.DisableRateLimitCheck, or let one of the contexts of go-github's switch
// the check off or make it wait, or keep a Reserve so that 0 is never read.
func TestClientsAwaitLimits(t *testing.T) {
	plain, announcing := awsretry.RateLimitConfig{}, awsretry.RateLimitConfig{Limits: awsretry.ReadLimits}
	unchecked := func(gh *github.Client) { gh.DisableRateLimitCheck = true }
	checked := func(*github.Client) {}
	background := context.Background()
	sleeping := context.WithValue(background, github.SleepUntilPrimaryRateLimitResetWhenRateLimited, true)
	refused := kit.IsError(func(e *github.RateLimitError) bool { return e.Rate.Remaining == 0 })
	for _, tt := range []struct {
		name    string
		call    newCaller
		service func() *meteredService
		config  awsretry.RateLimitConfig
		fails   func(error) bool // nil: no call may fail
	}{
		{"go-github", askGithub(background, unchecked), meteredGithub, announcing, nil},
		{"go-github, check waits", askGithub(sleeping, checked), meteredGithub, announcing, nil},
		{"go-github, check", askGithub(background, checked), meteredGithub, announcing, refused},
		{"go-github, limits not read", askGithub(background, unchecked), meteredGithub, plain, refused},
		{"openai-go", askOpenai(0), meteredOpenai, announcing, nil},
		{"openai-go, its own retries", askOpenai(2), meteredOpenai, announcing, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := tt.service()
				failed, took := service.use(t, tt.call, tt.config)
				t.Logf("%d of %d calls failed, %d served, %d throttled, %v",
					len(failed), meteredCalls, service.served, service.throttled, took)
				if tt.fails != nil {
					if len(failed) == 0 || slices.ContainsFunc(failed, func(err error) bool { return !tt.fails(err) }) {
						t.Errorf("the calls that failed are %v", failed)
					}
					return
				}
				if len(failed) > 0 {
					t.Errorf("%d calls failed, such as: %v", len(failed), failed[0])
				}
				if service.served != meteredCalls || service.throttled > 0 {
					t.Errorf("%d served and %d throttled, want %d and 0", service.served, service.throttled, meteredCalls)
				}
				quota := service.quota
				if most := seconds(1.5 * meteredCalls / quota * service.window.Seconds()); took > most {
					t.Errorf("took %v, want at most %v", took, most)
				}
			})
		})
	}
}

const meteredCalls, meteredCallers = 40, 4

// An newCaller calls an SDK once.
type newCaller func(client *http.Client, server string) func() error

// A meteredService has one limit, which it announces in every response.
type meteredService struct {
	quota    float64
	window   time.Duration // in which the quota comes back
	refills  bool          // steadily; else at the end
	announce func(h http.Header, quota, left float64, reset time.Duration)
	serve    http.HandlerFunc
	deny     http.HandlerFunc

	mu                sync.Mutex // guards the fields below
	left              float64
	at                time.Time // of left, or of the begin of the window
	served, throttled int
}

func (m *meteredService) handle(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	time.Sleep(50 * time.Millisecond)
	m.mu.Lock()
	now := time.Now()
	age := now.Sub(m.at)
	switch {
	case m.refills:
		m.left, m.at = min(m.left+m.quota*age.Seconds()/m.window.Seconds(), m.quota), now
	case age >= m.window:
		m.left, m.at = m.quota, now.Truncate(time.Second)
	}
	handle := m.serve
	if m.left >= 1 {
		m.left--
		m.served++
	} else {
		handle = m.deny
		m.throttled++
	}
	reset := m.at.Add(m.window).Sub(now)
	if m.refills {
		reset = seconds((m.quota - m.left) / m.quota * m.window.Seconds())
	}
	m.announce(w.Header(), m.quota, math.Floor(m.left), reset)
	m.mu.Unlock()
	handle(w, r)
}

// use makes meteredCalls, and returns the errors of those that failed.
func (m *meteredService) use(
	t *testing.T, call newCaller, config awsretry.RateLimitConfig,
) (failed []error, took time.Duration) {
	srv := httpfake.Serve(t, "HTTP/1.1", m.handle)
	tr := &awsretry.Transport{Base: srv.Base, Policy: services.GitHub.Policy}
	if config.Limits != nil {
		tr.Mode, tr.RateLimit = awsretry.Adaptive, config
	} else {
		tr.MaxAttempts = 1
	}
	defer tr.CloseIdleConnections()
	do := call(&http.Client{Transport: tr}, srv.URL)
	start := time.Now()
	var mu sync.Mutex // guards failed
	kit.InParallel(meteredCalls, meteredCallers, func(int) {
		if err := do(); err != nil {
			mu.Lock()
			failed = append(failed, err)
			mu.Unlock()
		}
	})
	return failed, time.Since(start)
}

func meteredGithub() *meteredService {
	return &meteredService{
		quota: 10, window: time.Minute,
		announce: func(h http.Header, quota, left float64, reset time.Duration) {
			h.Set("X-RateLimit-Limit", fmt.Sprint(quota))
			h.Set("X-RateLimit-Remaining", fmt.Sprint(left))
			h.Set("X-RateLimit-Used", fmt.Sprint(quota-left))
			h.Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Add(reset).Unix()))
			h.Set("X-RateLimit-Resource", "core")
		},
		serve: kit.Respond(200, `{"full_name": "octo/hello"}`),
		deny:  kit.Respond(403, `{"message": "API rate limit exceeded"}`),
	}
}

func askGithub(ctx context.Context, set func(*github.Client)) newCaller {
	return func(client *http.Client, server string) func() error {
		gh := newGithub(client, server, set)
		return func() error {
			repo, _, err := gh.Repositories.Get(ctx, "octo", "hello")
			return notWanted(err, repo.GetFullName() == "octo/hello", repo)
		}
	}
}

func meteredOpenai() *meteredService {
	return &meteredService{
		quota: 10, window: time.Minute, refills: true,
		announce: func(h http.Header, quota, left float64, reset time.Duration) {
			h.Set("X-RateLimit-Limit-Requests", fmt.Sprint(quota))
			h.Set("X-RateLimit-Remaining-Requests", fmt.Sprint(left))
			h.Set("X-RateLimit-Reset-Requests", reset.Round(time.Millisecond).String())
			h.Set("X-RateLimit-Limit-Tokens", "200000")
			h.Set("X-RateLimit-Remaining-Tokens", "199000")
			h.Set("X-RateLimit-Reset-Tokens", "300ms")
		},
		serve: completion,
		deny:  kit.Respond(429, `{"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}`),
	}
}

func askOpenai(retries int) newCaller {
	return func(client *http.Client, server string) func() error {
		ai := newOpenAI(client, server, retries)
		return func() error { return chat(ai) }
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
