package fleet_test

import (
	"context"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
)

// A Retry-After does not last longer because processes with a slow store report
// it to each other.
func TestRetryAfterIsNotProlonged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var end time.Time
		store := clientFunc(func(_ context.Context, args []string) ([]string, error) {
			time.Sleep(150 * time.Millisecond)
			mu.Lock()
			if left, _ := strconv.Atoi(args[argGate]); left > 0 &&
				time.Now().Add(time.Duration(left)*time.Millisecond).After(end) {
				end = time.Now().Add(time.Duration(left) * time.Millisecond)
			}
			left := max(time.Until(end), 0)
			mu.Unlock()
			time.Sleep(150 * time.Millisecond)
			return reply(map[int]string{replyGate: strconv.FormatInt(left.Milliseconds(), 10)}), nil
		})
		var transports [3]*awsretry.Transport
		var throttled atomic.Bool
		for i := range transports {
			shared := fleet.New(store, fleet.Config{})
			defer shared.Close()
			transports[i] = &awsretry.Transport{
				Base: roundTripper(func(req *http.Request) (*http.Response, error) {
					if !throttled.CompareAndSwap(true, false) {
						return respond(200, 0).RoundTrip(req)
					}
					resp, err := respond(429, 0).RoundTrip(req)
					resp.Header.Set("Retry-After", "3")
					return resp, err
				}),
				Shared: shared, ShareRetryAfter: true, RetryAfterSpread: -1, MaxAttempts: 1,
			}
			send(t, transports[i])
		}
		time.Sleep(time.Second)
		throttled.Store(true)
		send(t, transports[0])
		time.Sleep(time.Second) // all have heard of it
		for i, tr := range transports {
			if took, most := send(t, tr), 2*time.Second+400*time.Millisecond; took > most ||
				i == 0 && took < 1900*time.Millisecond {
				t.Errorf("process %d waits for another %v", i, took)
			}
		}
	})
}

// The members of partitions that a Transport drops end, also while they renew,
// and give their retry tokens back.
func TestPartitionsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		leaving, last := 0, make(map[string]time.Time)
		store := keyedFunc(func(key string, args []string) []string {
			time.Sleep(50 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if args[argLeaving] == "1" {
				leaving++
			}
			last[key] = time.Now()
			return reply(nil)
		})
		shared := fleet.New(store, fleet.Config{})
		tr := &awsretry.Transport{
			Base: respond(200, 0), Shared: shared, MaxPartitions: 3,
			Partition: func(req *http.Request) string { return req.URL.Host },
		}
		for i := range 100 {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://host"+strconv.Itoa(i)+".test/", nil)
			if resp, err := tr.RoundTrip(req); err == nil {
				resp.Body.Close()
			}
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		runtime.KeepAlive(tr)
		mu.Lock()
		running := 0
		for _, at := range last {
			if time.Since(at) < 5*time.Second {
				running++
			}
		}
		if running != 3 || leaving != 97 {
			t.Errorf("%d partitions are renewed, %d were left; want 3 and 97", running, leaving)
		}
		mu.Unlock()
		shared.Close()
		if leaving != 100 {
			t.Errorf("%d partitions were left at the end", leaving)
		}
	})
}

type keyedFunc func(key string, args []string) []string

func (f keyedFunc) Eval(_ context.Context, _ string, keys, args []string) ([]string, error) {
	return f(keys[0], args), nil
}
