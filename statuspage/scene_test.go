package statuspage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// scene is the page of two Transports in an outage: standard mode and four
// services, one of which is down and one rejects all requests, and adaptive mode and a service that throttles
// and announces its limit. handle is called with it in virtual time.
func scene(t *testing.T, handle func(*Page)) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		plain := &awsretry.Transport{
			Policy: awsretry.IdempotentOnly(nil), AttemptTimeout: 2 * time.Second, ShareRetryAfter: true,
			Backoff: awsretry.Exponential{Jitter: awsretry.NoJitter}, RetryAfterSpread: -1,
			Quota: awsretry.QuotaConfig{Capacity: 100},
		}
		plain.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
			after := time.Since(begin)
			time.Sleep(40 * time.Millisecond)
			switch {
			case req.URL.Host == "payments.example" && after > 52*time.Second:
				return nil, errors.New("dial tcp 10.0.0.7:443: connect: connection refused")
			case req.URL.Host == "payments.example" && after > 38*time.Second:
				return httpfake.Response(req, 503, http.NoBody), nil
			case req.URL.Host == "search.example":
				return httpfake.Response(req, 403, http.NoBody), nil
			case req.URL.Host == "maps.example" && after > 57*time.Second:
				return httpfake.Response(req, 429, http.NoBody, "Retry-After", "20"), nil
			}
			return httpfake.Response(req, 200, http.NoBody), nil
		})
		var mu sync.Mutex
		left, full := 1000.0, begin.Add(90*time.Second)
		paced := &awsretry.Transport{Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{
			Pacing: awsretry.ScaledPacing, Limits: awsretry.ReadLimits,
		}}
		sent := 0
		paced.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
			time.Sleep(25 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			left -= 1.5
			resp := httpfake.Response(req, 200, http.NoBody, "X-RateLimit-Limit-Tokens", "1000",
				"X-RateLimit-Remaining-Tokens", fmt.Sprint(int(left)),
				"X-RateLimit-Reset-Tokens", fmt.Sprint(time.Until(full).Round(time.Second)))
			if sent++; sent%40 == 0 {
				resp.StatusCode = 400
				resp.Header.Set("X-Amzn-ErrorType", "ThrottlingException")
			}
			return resp, nil
		})
		page := new(Page)
		page.Add("shop", plain)
		page.Add("stock", paced)
		plain.Observe, paced.Observe = page.Observe, page.Observe

		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		call := func(tr *awsretry.Transport, host, query string) {
			req, err := http.NewRequestWithContext(ctx, "GET", "http://"+host+"/v1/items?"+query, nil)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer SECRET")
			running.Go(func() {
				if resp, err := tr.RoundTrip(req); err == nil {
					resp.Body.Close()
				} else if e := (*awsretry.Error)(nil); !errors.As(err, &e) {
					t.Error(err)
				}
			})
		}
		for tick := range 59 * 10 {
			second := tick / 10
			if tick%2 == 0 || second%7 < 3 {
				call(plain, "orders.example", "key=SECRET")
			}
			if tick%3 == 0 {
				call(plain, "payments.example", "key=SECRET")
			}
			if tick%10 == 5 {
				call(plain, "maps.example", "key=SECRET")
				call(plain, "search.example", "key=SECRET")
			}
			if second > 8 {
				call(paced, "dynamodb.example", "key=SECRET")
			}
			time.Sleep(100 * time.Millisecond)
		}
		handle(page)
		end()
		running.Wait()
	})
}
