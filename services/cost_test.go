package services

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/worlds"
)

// A cost is what the body says, and 0 where it does not, or the headers know better.
func TestCost(t *testing.T) {
	long := strings.Repeat("x", 4000)
	for _, tt := range []struct {
		body              string
		anthropic, openai float64
	}{
		{`{"max_tokens":480}`, 480, 480},
		{`{"messages":[{"max_tokens":9}],"max_completion_tokens":480}`, 480, 480},
		{`{"max_output_tokens":1000,"input":"x"}`, 1000, 1000},
		{`{"max_tokens":4096}`, 0, 4096},
		{`{"max_tokens":100,"prompt":"` + long + `"}`, 100, 0},
		{`{"max_tokens":2000,"prompt":"` + long + `"}`, 0, 2000},
		{`{"max_tokens":null,"input":"x"}`, 0, 0},
		{`{"max_tokens":"480"}`, 0, 0},
		{`{"max_tokens":-480}`, 0, 0},
		{`{"max_tokens":1e999}`, 0, 0},
		{`{"max_tokens":480`, 0, 0},
		{`["max_tokens",480]`, 0, 0},
		{``, 0, 0},
	} {
		req := request(t, tt.body)
		if got := anthropicCost(req, "output-tokens"); got != tt.anthropic {
			t.Errorf("%.40q: Anthropic %v, want %v", tt.body, got, tt.anthropic)
		}
		if got := openaiCost(req, "tokens"); got != tt.openai {
			t.Errorf("%.40q: OpenAI %v, want %v", tt.body, got, tt.openai)
		}
		for _, limit := range []string{"", "requests", "input-tokens"} {
			if anthropicCost(req, limit) != 0 || openaiCost(req, limit) != 0 {
				t.Errorf("%.40q: a cost for %q", tt.body, limit)
			}
		}
		if sent, err := io.ReadAll(req.Body); string(sent) != tt.body || err != nil {
			t.Errorf("%.40q: the body that is sent is %.40q, %v", tt.body, sent, err)
		}
	}
}

// request returns a request whose body can be read twice.
func request(t *testing.T, body string) *http.Request {
	req, err := http.NewRequestWithContext(t.Context(), "POST", "https://api.example/v1/messages", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		req.Body = http.NoBody
	}
	return req
}

// A body that is not in memory or is long is not read, and each copy is closed.
func TestCostLeavesTheBody(t *testing.T) {
	const body = `{"max_tokens":480}`
	for name, spoil := range map[string]func(*http.Request){
		"once": func(req *http.Request) { req.GetBody = nil },
		"an error": func(req *http.Request) {
			req.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("gone") }
		},
		"unknown length": func(req *http.Request) {
			req.ContentLength = -1
			req.GetBody = func() (io.ReadCloser, error) { t.Error("read"); return http.NoBody, nil }
		},
		"too long": func(req *http.Request) {
			req.ContentLength = longestBody + 1
			req.GetBody = func() (io.ReadCloser, error) { t.Error("read"); return http.NoBody, nil }
		},
		"one reader": func(req *http.Request) {
			one := strings.NewReader(body)
			req.Body = struct{ io.ReadCloser }{io.NopCloser(one)}
			req.GetBody = func() (io.ReadCloser, error) {
				_, err := one.Seek(0, io.SeekStart)
				return req.Body, err
			}
		},
		"broken off": func(req *http.Request) {
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(iotest.ErrReader(errors.New("gone"))), nil }
		},
	} {
		req := request(t, body)
		spoil(req)
		if got := mostTokens(req); got != 0 {
			t.Errorf("%s: %v", name, got)
		}
		if sent, err := io.ReadAll(req.Body); string(sent) != body || err != nil {
			t.Errorf("%s: the body that is sent is %q, %v", name, sent, err)
		}
	}
	req, closed := request(t, body), 0
	req.GetBody = func() (io.ReadCloser, error) { return &counted{strings.NewReader(body), &closed}, nil }
	if got := mostTokens(req); got != 480 || closed != 1 {
		t.Errorf("%v, closed %d times", got, closed)
	}
}

type counted struct {
	io.Reader
	closed *int
}

func (c *counted) Close() error { *c.closed++; return nil }

// The Cost of a service is used unless the program has one, and in adaptive mode only.
func TestApplyCost(t *testing.T) {
	limits := func(*http.Response) []awsretry.Limit {
		return []awsretry.Limit{{Name: "tokens", Quota: 100, Remaining: 90, Reset: -1}}
	}
	for _, tt := range []struct {
		mode awsretry.Mode
		own  bool
		want string
	}{{awsretry.Standard, false, ""}, {awsretry.Adaptive, false, "service's"}, {awsretry.Adaptive, true, "own"}} {
		called := ""
		cost := func(whose string) func(*http.Request, string) float64 {
			return func(_ *http.Request, limit string) float64 { called = whose; return float64(len(limit)) }
		}
		tr := &awsretry.Transport{Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			return httpfake.Response(req, 200, http.NoBody), nil
		})}
		Service{Limits: limits, Cost: cost("service's")}.Apply(tr)
		if tr.Mode = tt.mode; tt.own {
			tr.RateLimit.Cost = cost("own")
		}
		if err := tr.Validate(); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the first response names the limit
			if _, err := tr.RoundTrip(request(t, `{"max_tokens":480}`)); err != nil {
				t.Fatal(err)
			}
		}
		if called != tt.want {
			t.Errorf("%s mode, own %v: the cost is %q, want %q", tt.mode, tt.own, called, tt.want)
		}
	}
}

// A model serves requests until its tokens of a minute are used up. They refill
// steadily, and it announces them in its headers.
type model struct {
	service       Service
	announce      func(h http.Header, quota, left float64, full time.Duration)
	quota, tokens float64 // in a minute, and of a request
	latency       time.Duration

	mu              sync.Mutex
	left            float64
	at              time.Time
	sent, throttled int
	broken          int // requests without their body
}

func (m *model) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	time.Sleep(50 * time.Millisecond)
	status := http.StatusOK
	m.mu.Lock()
	m.refill()
	if err != nil || string(body) != m.body() {
		m.broken++
	}
	if m.sent++; m.left < m.tokens {
		status = http.StatusTooManyRequests
		m.throttled++
	} else {
		m.left -= m.tokens
	}
	m.mu.Unlock()
	if status == http.StatusOK {
		time.Sleep(m.latency)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refill()
	resp := httpfake.Response(req, status, http.NoBody)
	resp.Header.Set("Date", m.at.UTC().Format(http.TimeFormat))
	if status == http.StatusTooManyRequests {
		resp.Header.Set("Retry-After", fmt.Sprint(math.Ceil((m.tokens-m.left)/m.quota*60)))
	}
	m.announce(resp.Header, m.quota, m.left, time.Duration((m.quota-m.left)/m.quota*float64(time.Minute)))
	return resp, nil
}

func (m *model) body() string { return fmt.Sprintf(`{"max_tokens":%v}`, m.tokens) }

func (m *model) refill() {
	now := time.Now()
	m.left = min(m.left+now.Sub(m.at).Minutes()*m.quota, m.quota)
	m.at = now
}

func announceAnthropic(h http.Header, quota, left float64, full time.Duration) {
	h.Set("Anthropic-Ratelimit-Output-Tokens-Limit", fmt.Sprint(quota))
	h.Set("Anthropic-Ratelimit-Output-Tokens-Remaining", fmt.Sprint(math.Round(left/1000)*1000))
	h.Set("Anthropic-Ratelimit-Output-Tokens-Reset", time.Now().Add(full).UTC().Format(time.RFC3339))
}

func announceOpenAI(h http.Header, quota, left float64, full time.Duration) {
	h.Set("X-Ratelimit-Limit-Tokens", fmt.Sprint(quota))
	h.Set("X-Ratelimit-Remaining-Tokens", fmt.Sprint(math.Floor(left)))
	h.Set("X-Ratelimit-Reset-Tokens", full.Round(time.Millisecond).String())
}

// With the costs in the bodies, few requests of 480 tokens are throttled with 10,000
// a minute, although Anthropic rounds what remains to thousands.
func TestCostInVirtualTime(t *testing.T) {
	for _, callers := range []int{8, 32} {
		m := model{service: Anthropic, announce: announceAnthropic, quota: 10_000, tokens: 480, latency: 2 * time.Second}
		synctest.Test(t, func(t *testing.T) {
			said, served := m.useUp(t, callers)
			m.service.Cost = nil
			learned, _ := m.useUp(t, callers)
			m.service.Limits = nil
			ignored, all := m.useUp(t, callers)
			t.Logf("%d callers: %.1f %% throttled; costs learned: %.1f %%; limits not read: %.1f %%; %d served, and %d",
				callers, 100*said, 100*learned, 100*ignored, served, all)
			if said > ignored/3 || float64(served) < .97*float64(all) {
				t.Errorf("want at most %.1f %%, and %.0f served", 100*ignored/3, .97*float64(all))
			}
		})
	}
}

// Whatever the quota, the callers and the requests, OpenAI with its Cost throttles no
// more and serves no less than if its limits were not read.
func TestLawOfCosts(t *testing.T) {
	worlds.Each(t, 20, func(t *testing.T, r *rand.Rand) {
		m := model{
			service: OpenAI, announce: announceOpenAI,
			quota:   worlds.Pick(r, 8e3, 10e3, 40e3, 100e3, 400e3),
			tokens:  worlds.Pick(r, 50., 200, 480, 1500),
			latency: worlds.Pick(r, 500*time.Millisecond, 2*time.Second, 10*time.Second, 30*time.Second),
		}
		callers := worlds.Pick(r, 1, 4, 16, 64)
		said, served := m.useUp(t, callers)
		m.service.Limits = nil
		ignored, all := m.useUp(t, callers)
		if said > ignored+.01 || float64(served) < .97*float64(all) {
			t.Errorf("%v tokens of %v, %v, %d callers: %.1f %% throttled, and %.1f %% unread; %d served, and %d",
				m.tokens, m.quota, m.latency, callers, 100*said, 100*ignored, served, all)
		}
	})
}

// useUp calls a model for half an hour, and returns the share of requests that it
// throttled, and how many it served.
func (m *model) useUp(t *testing.T, callers int) (throttled float64, served int) {
	m.left, m.at, m.sent, m.throttled = m.quota, time.Now(), 0, 0
	tr := &awsretry.Transport{
		Base: m, Mode: awsretry.Adaptive, MaxAttempts: 10, RateLimit: awsretry.RateLimitConfig{Pacing: awsretry.ScaledPacing},
	}
	m.service.Apply(tr)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	var calls sync.WaitGroup
	for range callers {
		calls.Go(func() {
			for ctx.Err() == nil {
				if resp, err := tr.RoundTrip(request(t, m.body())); err == nil {
					resp.Body.Close()
				}
			}
		})
	}
	<-ctx.Done()
	m.mu.Lock()
	if m.broken > 0 {
		t.Errorf("%d requests without their body", m.broken)
	}
	throttled, served = float64(m.throttled)/float64(m.sent), m.sent-m.throttled
	m.mu.Unlock()
	calls.Wait()
	return throttled, served
}
