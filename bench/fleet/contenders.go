package main

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/valkey-io/valkey-go"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
)

// A contender keeps many processes together below a limit.
type contender struct {
	name      string
	usesStore bool
	asks      bool // the store, before each request
	connect   func(to setting) process
}

// A setting is what a process is given.
type setting struct {
	store  string // address
	limits limits // for those that must know them
	base   http.RoundTripper
	asks   *atomic.Int64 // counts the round trips that requests wait for
}

// A process sends requests. It is a group of goroutines with connections of its
// own.
type process struct {
	http.RoundTripper
	close func()
}

var contenders = []contender{
	{"redis_rate, an error fails the request", true, true, limitedBy(newGCRA, false)},
	{"redis_rate, an error lets it through", true, true, limitedBy(newGCRA, true)},
	{"token bucket script, an error fails the request", true, true, limitedBy(newTokenBucket, false)},
	{"token bucket script, an error lets it through", true, true, limitedBy(newTokenBucket, true)},
	{"awsretry, `CubicPacing`", false, false, alone(awsretry.CubicPacing)},
	{"awsretry, `ScaledPacing`", false, false, alone(awsretry.ScaledPacing)},
	{"awsretry with fleet, `CubicPacing`", true, false, sharing(awsretry.CubicPacing)},
	{"awsretry with fleet, `ScaledPacing`", true, false, sharing(awsretry.ScaledPacing)},
}

func limitedBy(newLimiter func(*redis.Client, setting) limiter, open bool) func(setting) process {
	return func(s setting) process {
		client := redis.NewClient(&redis.Options{Addr: s.store})
		return process{
			&limited{limiter: newLimiter(client, s), open: open, base: s.base},
			func() { _ = client.Close() }, // nothing is left to lose
		}
	}
}

// silent drops what go-redis logs of each connection that is refused.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(silent{}) }

func newGCRA(client *redis.Client, s setting) limiter {
	return &gcra{redis_rate.NewLimiter(client), s.limits, s.asks}
}

func newTokenBucket(client *redis.Client, s setting) limiter {
	return &tokenBucket{client, redis.NewScript(bucketScript), s.limits, s.asks}
}

func alone(pacing awsretry.Pacing) func(setting) process {
	return func(s setting) process {
		return process{adaptive(s, pacing, nil), func() {}}
	}
}

func sharing(pacing awsretry.Pacing) func(setting) process {
	return func(s setting) process {
		client := fleet.Dial(valkey.ClientOption{InitAddress: []string{s.store}, ForceSingleClient: true})
		shared, err := fleet.New(client, fleet.Config{Prefix: "bench"})
		if err != nil {
			panic(err) // the Config is valid
		}
		return process{adaptive(s, pacing, shared), func() {
			_ = shared.Close() // the store may be gone
			_ = client.Close()
		}}
	}
}

func adaptive(s setting, pacing awsretry.Pacing, shared awsretry.Shared) http.RoundTripper {
	return &awsretry.Transport{
		Base: s.base, Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{Pacing: pacing}, Shared: shared,
	}
}
