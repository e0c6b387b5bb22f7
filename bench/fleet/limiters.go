package main

import (
	"context"
	_ "embed"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// A limiter makes a request to a host wait for its turn. It returns an error if
// it cannot tell.
type limiter interface {
	wait(ctx context.Context, host string) error
}

// limited asks a limiter before each request.
type limited struct {
	limiter limiter
	open    bool // an error of the limiter lets the request through
	base    http.RoundTripper
}

func (l *limited) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := l.limiter.wait(req.Context(), req.URL.Host); err != nil && !l.open {
		return nil, err
	}
	return l.base.RoundTrip(req)
}

// limits are what the limiters must be told: the requests per second of each
// host. A fifth of it is the burst.
type limits map[string]int

func (l limits) of(host string) (rate, burst int) { return l[host], l[host] / 5 }

// gcra is redis_rate. It does not reserve: whoever is refused asks again after
// the time that it says, which doubles with each refusal, with jitter. If all
// asked again after exactly that time, most would be refused again.
type gcra struct {
	limiter *redis_rate.Limiter
	limits  limits
	asks    *atomic.Int64
}

const longestPause = time.Second

func (g *gcra) wait(ctx context.Context, host string) error {
	rate, burst := g.limits.of(host)
	limit := redis_rate.Limit{Rate: rate, Burst: burst, Period: time.Second}
	for factor := time.Duration(1); ; factor = min(2*factor, 1000) {
		g.asks.Add(1)
		result, err := g.limiter.Allow(ctx, host, limit)
		if err != nil || result.Allowed > 0 {
			return err
		}
		pause := min(factor*max(result.RetryAfter, time.Millisecond), longestPause)
		if err := sleep(ctx, pause/2+rand.N(pause)); err != nil {
			return err
		}
	}
}

//go:embed bucket.lua
var bucketScript string

// tokenBucket is bucket.lua.
type tokenBucket struct {
	client *redis.Client
	script *redis.Script
	limits limits
	asks   *atomic.Int64
}

func (b *tokenBucket) wait(ctx context.Context, host string) error {
	b.asks.Add(1)
	rate, burst := b.limits.of(host)
	ms, err := b.script.Run(ctx, b.client, []string{"bucket:{" + host + "}"}, rate, burst).Int64()
	if err != nil {
		return err
	}
	return sleep(ctx, time.Duration(ms)*time.Millisecond)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
