package interop

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"example.com/awsretry/internal/httpfake"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"golang.org/x/time/rate"
)

// Two hundred callers share a service that allows 100 requests a second. They
// are served first come first served: none waits much longer than the others.
func TestRetryerLine(t *testing.T) {
	for _, u := range []retryerUse{{apply: true}, {apply: false}} {
		u.run(t, "", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testRetryerLine(t, u) })
		})
	}
}

func testRetryerLine(t *testing.T, u retryerUse) {
	const (
		callers = 200
		limit   = 100
		warmUp  = 8 * time.Second
		length  = 20 * time.Second
	)
	allowed := rate.NewLimiter(limit, limit/10)
	service := httpfake.Base(func(req *http.Request) (*http.Response, error) {
		if _, err := httpfake.Receive(req); err != nil {
			return nil, err
		}
		step := sdkStep{takes: 10 * time.Millisecond}
		if !allowed.Allow() {
			step = busy
		}
		return step.respond(req)
	})
	r := newRetryer(t, awssdk.Config{
		Mode: awsretry.Adaptive, MaxAttempts: 20, Quota: awsretry.QuotaConfig{Capacity: -1},
	})
	client := dynamodb.NewFromConfig(u.config(r, "ddb.example", service))
	start := time.Now()
	var mu sync.Mutex
	var calls []time.Duration // how long each took after the warm-up
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for time.Since(start) < length {
				before := time.Now()
				if _, err := client.ListTables(t.Context(), nil); err != nil {
					t.Error(err)
				}
				mu.Lock()
				if before.Sub(start) > warmUp {
					calls = append(calls, time.Since(before))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(calls)
	var sum time.Duration
	for _, d := range calls {
		sum += d
	}
	mean, longest := sum/time.Duration(len(calls)), calls[len(calls)-1]
	t.Logf("%d calls: mean %v, p99 %v, longest %v", len(calls), mean, calls[len(calls)*99/100], longest)
	if longest > 4*mean {
		t.Errorf("one call took %v, the mean is %v", longest, mean)
	}
	if rate := float64(len(calls)) / (length - warmUp).Seconds(); rate < limit*0.7 {
		t.Errorf("%.0f calls a second, want about %d", rate, limit)
	}
}
