package interop

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
)

// Each server allows limitQuota requests in limitWindow, and throttles the rest.
const (
	limitQuota    = 60
	limitWindow   = 3 * time.Second
	limitDuration = 3 * limitWindow
	limitCallers  = 8
)

// Servers announce what is left of their limits, each in its own way. Callers
// that never rest are hardly throttled, and use the quota.
func TestAnnouncedLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Parallel()
	announcing := awsretry.RateLimitConfig{Limits: awsretry.ReadLimits}
	node := startNodeLimiters(t)
	var all sync.WaitGroup
	var sum, unread atomic.Int64 // throttled
	defer func() {
		if all.Wait(); 5*unread.Load() < 2*sum.Load() {
			t.Errorf("%d throttled at five servers, and %d at one if the headers are not read", sum.Load(), unread.Load())
		}
	}()
	for _, tt := range []struct {
		name   string
		url    string
		config awsretry.RateLimitConfig
		least  float64 // share of the quota that must be used
	}{
		// They round the reset up to seconds, which costs a part of so short a
		// window: a request that comes too early would be throttled.
		{"express-rate-limit, legacy headers", node + "/legacy", announcing, .5},
		{"express-rate-limit, draft 8", node + "/draft-8", announcing, .5},
		{"@fastify/rate-limit", node + "/fastify", announcing, .5},
		{"rate-limiter-flexible", node + "/flexible", announcing, .5},
		// Its window slides, but nothing in the headers says so.
		{"HAProxy", startHAProxyLimiter(t), announcing, .4},
		{"express-rate-limit, headers not read", node + "/unread", awsretry.RateLimitConfig{}, 0},
	} {
		all.Go(func() {
			served, throttled := useLimit(t, tt.url, tt.config)
			allowed := limitQuota * limitDuration.Seconds() / limitWindow.Seconds()
			t.Logf("%s: %d served, %.0f %% of the quota; %d throttled, %.1f %%", tt.name,
				served, 100*float64(served)/allowed, throttled, 100*float64(throttled)/float64(served+throttled))
			// All callers may be early at the end of a window, and HAProxy's rate is an
			// estimate of two periods.
			most := .02*float64(served+throttled) + 1.5*limitCallers
			if tt.config.Limits == nil {
				unread.Store(int64(throttled))
			} else if sum.Add(int64(throttled)); float64(throttled) > most {
				t.Errorf("%s: %d throttled, want at most %.0f", tt.name, throttled, most)
			}
			if float64(served) < tt.least*allowed {
				t.Errorf("%s: %d served, want at least %.0f", tt.name, served, tt.least*allowed)
			}
		})
	}
}

// useLimit sends requests for limitDuration, and returns how many attempts were
// served and throttled.
func useLimit(t *testing.T, url string, config awsretry.RateLimitConfig) (served, throttled int) {
	pool := kit.Pool(t)
	var ok, denied, strange atomic.Int32
	tr := &awsretry.Transport{
		Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			resp, err := pool.RoundTrip(req)
			switch {
			case req.Context().Err() != nil:
			case err != nil:
				strange.Add(1)
			case resp.StatusCode == http.StatusOK:
				ok.Add(1)
			case resp.StatusCode == http.StatusTooManyRequests:
				denied.Add(1)
			default:
				strange.Add(1)
			}
			return resp, err
		}),
		Mode:      awsretry.Adaptive,
		RateLimit: config,
	}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr}
	ctx, cancel := context.WithCancel(t.Context())
	timer := time.AfterFunc(limitDuration, cancel) // a deadline would be known to the Transport
	defer timer.Stop()
	var callers sync.WaitGroup
	for range limitCallers {
		callers.Go(func() {
			for ctx.Err() == nil {
				kit.Text(client.Do(kit.NewRequest(t, ctx, http.MethodGet, url, nil)))
			}
		})
	}
	callers.Wait()
	if n := strange.Load(); n > 0 {
		t.Errorf("%d attempts had neither 200 nor 429", n)
	}
	return int(ok.Load()), int(denied.Load())
}

// startNodeLimiters starts middleware of npm, each on its own path.
func startNodeLimiters(t *testing.T) (url string) {
	t.Helper()
	return "http://" + kit.StartNode(t, `
		const [limit, windowMs] = process.argv.slice(1).map(Number);
		const express = require('express');
		const {rateLimit} = require('express-rate-limit');
		const {RateLimiterMemory} = require('rate-limiter-flexible');
		const app = express();
		const served = (req, res) => res.send('served');
		for (const path of ['draft-8', 'unread'])
			app.get('/' + path, rateLimit({windowMs, limit, legacyHeaders: false, standardHeaders: 'draft-8'}), served);
		app.get('/legacy', rateLimit({windowMs, limit, standardHeaders: false}), served);

		// As the package's README shows.
		const opts = {points: limit, duration: windowMs / 1000};
		const flexible = new RateLimiterMemory(opts);
		const headers = rateLimiterRes => ({
			'Retry-After': rateLimiterRes.msBeforeNext / 1000,
			'X-RateLimit-Limit': opts.points,
			'X-RateLimit-Remaining': rateLimiterRes.remainingPoints,
			'X-RateLimit-Reset': Math.ceil((Date.now() + rateLimiterRes.msBeforeNext) / 1000),
		});
		app.get('/flexible', (req, res, next) => flexible.consume(req.ip).
			then(r => { res.set(headers(r)); next(); }).
			catch(r => res.set(headers(r)).status(429).send('Too Many Requests')), served);

		const fastify = require('fastify')();
		(async () => {
			await fastify.register(require('@fastify/rate-limit'), {max: limit, timeWindow: windowMs});
			fastify.get('/fastify', async () => 'served');
			await fastify.ready();
			const server = require('http').createServer((req, res) =>
				req.url.startsWith('/fastify') ? fastify.routing(req, res) : app(req, res));
			server.listen(0, '127.0.0.1', () => console.log(server.address().port));
		})();`, fmt.Sprint(limitQuota), fmt.Sprint(limitWindow.Milliseconds()))
}

// startHAProxyLimiter starts a HAProxy that says what its stick table has left.
// The window slides, so its reset is always the whole window.
func startHAProxyLimiter(t *testing.T) (url string) {
	t.Helper()
	return "http://" + kit.StartHAProxy(t, fmt.Sprintf(`
	stick-table type ip size 1k expire 1m store http_req_rate(%[1]ds)
	http-request track-sc0 src
	http-request deny status 429 if { sc_http_req_rate(0) gt %[2]d }
	http-after-response set-header X-RateLimit-Limit %[2]d
	http-after-response set-header X-RateLimit-Reset %[1]d
	http-after-response set-header X-RateLimit-Remaining %%[sc_http_req_rate(0),neg,add(%[2]d)]
	http-after-response set-header X-RateLimit-Remaining 0 if { sc_http_req_rate(0) gt %[2]d }
`, int(limitWindow.Seconds()), limitQuota), httpfake.ServeTCP(t, "HTTP/1.1", kit.Respond(200, "served")).URL)
}
