package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/announced"
	"example.com/awsretry/internal/pacing"
	"example.com/awsretry/internal/tokens"
)

const (
	maxAttempts = 3 // of a Transport
	retryCost   = 10
)

// A client has one Transport, and one bucket of send tokens at the rate of a
// law, as a Transport in adaptive mode has.
type client struct {
	*simulation
	number    int
	network   http.RoundTripper
	transport *awsretry.Transport
	bucket    *tokens.Bucket

	mu       sync.Mutex // guards the fields below
	began    int        // calls
	random   *rand.Rand
	law      pacing.Law
	limiting bool // from the first throttling response on
}

// newClient makes the next client. It is called when the run starts.
func (m *simulation) newClient(network http.RoundTripper, law newLaw) *client {
	if m.clients == 0 {
		m.start = time.Now()
	}
	m.clients++
	random := rand.New(rand.NewPCG(m.seed, uint64(m.clients)))
	c := &client{
		simulation: m, number: m.clients - 1, network: network,
		bucket: tokens.New(m.start, 0, 0), random: random,
		// The clocks of the clients do not begin with a whole second.
		law: law(m.start.Add(time.Duration(m.random.Int64N(int64(time.Second)))), random),
	}
	c.transport = &awsretry.Transport{
		Base: attempts(c.attempt), MaxAttempts: maxAttempts, Quota: awsretry.QuotaConfig{ThrottlingCost: retryCost},
		Backoff: awsretry.Exponential{Jitter: func(d time.Duration) time.Duration {
			c.mu.Lock()
			defer c.mu.Unlock()
			return seconds(random.Float64() * d.Seconds())
		}},
	}
	return c
}

// RoundTrip makes a call.
func (c *client) RoundTrip(req *http.Request) (*http.Response, error) {
	if c.parks() {
		<-req.Context().Done()
	}
	for !c.scenario.isActive(c.number, c.now()) && req.Context().Err() == nil {
		time.Sleep(100 * time.Millisecond)
	}
	begin := c.now()
	resp, err := c.transport.RoundTrip(req)
	c.ended(c.number, begin, err == nil && resp.StatusCode == http.StatusOK)
	return resp, err
}

// parks reports whether the call is of a caller that the client does not have:
// in a simulation, all clients have as many as the largest.
func (c *client) parks() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began++
	return c.scenario.clients[c.number] < c.began && c.began <= slices.Max(c.scenario.clients)
}

// attempt sends a request when there is a send token, at once before the first
// throttling.
func (c *client) attempt(req *http.Request) (resp *http.Response, err error) {
	sent := time.Duration(0) // took no token
	if c.isLimiting() {
		if sent, err = c.bucket.WaitFor(req.Context(), 1, announced.Request{}, 0, false); err != nil {
			return nil, err
		}
	}
	if resp, err = c.network.RoundTrip(req); err != nil {
		return nil, err
	}
	throttled := c.throttles()
	if !throttled {
		time.Sleep(c.scenario.latency)
	}
	c.update(sent, throttled)
	if !throttled {
		return resp, nil
	}
	refusal := *resp
	refusal.StatusCode, refusal.Header = http.StatusTooManyRequests, make(http.Header)
	if asked := c.scenario.retryAfter; asked > 0 {
		refusal.Header.Set("Retry-After", fmt.Sprint(asked.Seconds()))
	}
	return &refusal, nil
}

func (c *client) isLimiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limiting
}

// update takes the outcome of a request that was sent at sent.
func (c *client) update(sent time.Duration, throttled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.bucket.Now()
	c.law.Update(now, sent, throttled)
	rate, capacity := c.law.Pace()
	c.bucket.SetRate(now, rate, capacity)
	c.limiting = c.limiting || throttled
}

// attempts is a RoundTripper that is a function.
type attempts func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f attempts) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
