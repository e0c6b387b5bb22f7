package fleet_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
)

// down is a service that is down.
type down struct{ attempts atomic.Int64 }

func (d *down) RoundTrip(req *http.Request) (*http.Response, error) {
	d.attempts.Add(1)
	return &http.Response{
		StatusCode: http.StatusServiceUnavailable, Header: make(http.Header),
		Body: io.NopCloser(strings.NewReader("")), Request: req,
	}, nil
}

func TestOutage(t *testing.T) {
	addr := startServer(t)
	client := fleet.Valkey(connect(t, addr))
	for _, sharing := range []bool{false, true} {
		const clients, rate = 200, 5
		const length = 20 * time.Second
		var d down
		var calls atomic.Int64
		ctx, cancel := context.WithTimeout(t.Context(), length)
		var wg sync.WaitGroup
		for range clients {
			tr := &awsretry.Transport{Base: &d, Backoff: awsretry.Exponential{Initial: 50 * time.Millisecond}}
			if sharing {
				shared := fleet.New(client, fleet.Config{OnError: func(p string, err error) { t.Log(p, err) }})
				defer shared.Close()
				tr.Shared = shared
			}
			wg.Go(func() {
				for {
					select {
					case <-time.After(time.Duration(rand.ExpFloat64() / rate * float64(time.Second))):
					case <-ctx.Done():
						return
					}
					wg.Go(func() {
						calls.Add(1)
						req, _ := http.NewRequestWithContext(ctx, "GET", "http://service.test/", nil)
						if resp, err := tr.RoundTrip(req); err == nil {
							resp.Body.Close()
						}
					})
				}
			})
		}
		wg.Wait()
		cancel()
		t.Logf("sharing %v: %d calls, %d attempts, %.3f", sharing, calls.Load(), d.attempts.Load(),
			float64(d.attempts.Load())/float64(calls.Load()))
	}
}
