package awsretry

import (
	"cmp"
	"context"
	"net/http"
	"time"
	"weak"

	"example.com/awsretry/internal/admission"
	"example.com/awsretry/internal/awsproto"
	"example.com/awsretry/internal/conns"
	"example.com/awsretry/internal/pacer"
	"example.com/awsretry/internal/tokens"
)

// How often a request may be sent: in standard and adaptive mode (AWS SDKs and
// Tools Reference Guide, "Retry behavior"), in Legacy mode (AWS SDK for Go v1),
// and to Amazon DynamoDB (2026 revision).
const (
	standardAttempts = 3
	legacyAttempts   = 4
	dynamoDBAttempts = 4
)

func defaultAttempts(m Mode) int {
	if m == Legacy {
		return legacyAttempts
	}
	return standardAttempts
}

const (
	defaultMaxPartitions = 1024
	defaultMaxBodyBuffer = 1 << 20
	defaultMaxRetryAfter = time.Minute

	// Up to a defaultSpreadPart-th of a delay that Retry-After asks for is added
	// to it, at most defaultMaxSpread.
	defaultSpreadPart = 4
	defaultMaxSpread  = 5 * time.Second
)

// The delays of the 2026 revision.
var (
	backoff2026         = Exponential{Initial: 50 * time.Millisecond, ThrottlingInitial: time.Second}
	backoffDynamoDB2026 = Exponential{Initial: 25 * time.Millisecond, ThrottlingInitial: time.Second}
)

// dynamoDBRules replace the attempts and the backoff of requests to Amazon
// DynamoDB.
type dynamoDBRules struct {
	attempts int
	backoff  Backoff
}

// A config is a Transport, and what is derived from its fields and their defaults. It
// does not change.
type config struct {
	transport *Transport // its fields, as they were set

	base     http.RoundTripper
	conns    *conns.Pools // of base; nil if retries may use any of them
	foreign  bool         // base is not an http.Transport
	untraced bool         // base is one that may send requests without calling the hooks of httptrace

	mode     Mode
	revision Revision
	attempts int
	backoff  Backoff
	dynamoDB *dynamoDBRules // nil means none

	observe       func(Attempt) // when the first request was sent: one that is set later may not call that of otelretry
	policy        Policy        // nil means DefaultPolicy, which is called without an allocation
	servicePolicy Policy        // which DefaultPolicy calls; nil if there is none

	maxRetryAfter time.Duration
	spread        spread
	uncalled      admission.Partition // of DelayAfter, which has no call

	quota      QuotaConfig                  // with its defaults
	failFast   bool                         // false except in adaptive mode
	limits     func(*http.Response) []Limit // nil except in adaptive mode
	partitions *admission.Table

	fastPathAllowed bool // for a first attempt
	ownRequest      bool // a first attempt needs a copy of the caller's request
	maxBuffer       int64
}

// resolve returns the config. The first call makes it.
func (t *Transport) resolve() (*config, error) {
	if c := t.config.Load(); c != nil {
		return c, nil
	}
	t.resolving.Lock()
	defer t.resolving.Unlock()
	if c := t.config.Load(); c != nil {
		return c, nil
	}
	if err := t.Validate(); err != nil {
		return nil, err
	}
	c := t.newConfig()
	t.config.Store(c)
	return c, nil
}

func (t *Transport) newConfig() *config {
	c := &config{
		transport:     t,
		base:          t.base(),
		mode:          cmp.Or(t.Mode, Standard),
		revision:      cmp.Or(t.Revision, Classic),
		observe:       t.Observe,
		policy:        t.policy(),
		servicePolicy: t.service.policy,
		ownRequest:    t.AttemptTimeout > 0 || t.StallTimeout > 0 || t.Prepare != nil || t.SDKHeaders,
		maxBuffer:     max(cmp.Or(t.MaxBodyBuffer, defaultMaxBodyBuffer), 0),
		maxRetryAfter: max(cmp.Or(t.MaxRetryAfter, defaultMaxRetryAfter), 0),
		spread:        spread{max(t.RetryAfterSpread, 0), t.RetryAfterSpread == 0 && t.Mode != Legacy},
	}
	if c.mode == Legacy {
		c.revision = Classic
	}
	pooled, ok := c.base.(*http.Transport)
	if ok && !t.KeepConnections {
		c.conns = conns.New(pooled)
	}
	c.foreign, c.untraced = !ok, ok && !conns.Traces(pooled)
	c.setDelays()
	c.setBuckets()
	c.fastPathAllowed = !c.ownRequest && c.policy.isDefault() && c.servicePolicy == nil && c.quota.InitialCost == 0 &&
		t.Observe == nil && t.Partition == nil && t.Peek == nil && t.IdempotencyKey == nil &&
		!t.ShareRetryAfter && !t.Resume && c.limits == nil
	return c
}

// mayHang reports whether nothing but Close would end a response body that
// hangs, so that an attempt needs its own context to end it. Close is
// enough for the bodies of an http.Transport.
func (c *config) mayHang(ctx context.Context) bool {
	if !c.foreign {
		return false
	}
	_, ok := ctx.Deadline()
	return !ok
}

// partitionOf returns the partition of a request. The caller must release it.
func (c *config) partitionOf(req *http.Request, options *callOptions) *admission.Partition {
	switch {
	case options != nil && options.hasPartition:
		return c.partitions.Get(options.partition)
	case c.transport.Partition != nil && req.URL != nil: // net/http refuses one without a URL
		return c.partitions.Get(c.transport.Partition(req))
	}
	return c.partitions.OfURL(req.URL)
}

// retriedOutside reports whether the AWS SDK that made the request retries it.
func (c *config) retriedOutside(req *http.Request) bool {
	return !c.transport.NestedRetries && awsproto.OuterLoop(req)
}

// setDelays sets the attempts and the delays.
func (c *config) setDelays() {
	t := c.transport
	c.attempts = cmp.Or(t.MaxAttempts, defaultAttempts(c.mode))
	switch {
	case t.Backoff == nil && c.mode == Legacy:
		c.backoff = legacyBackoff{}
	case c.revision == Revision2026:
		c.backoff = completed(t.Backoff, backoff2026)
		c.dynamoDB = &dynamoDBRules{cmp.Or(t.MaxAttempts, dynamoDBAttempts), completed(t.Backoff, backoffDynamoDB2026)}
	default:
		c.backoff = completed(t.Backoff, Exponential{})
	}
}

// setBuckets sets the amounts of tokens, and the table that makes the buckets.
func (c *config) setBuckets() {
	t := c.transport
	c.quota = t.Quota
	if c.mode == Legacy {
		c.quota = QuotaConfig{Capacity: -1, SuccessIncrement: -1}
	}
	c.quota = c.quota.withDefaults(c.revision)
	shares := t.Shared != nil && (c.quota.Capacity > 0 || c.mode == Adaptive || t.ShareRetryAfter)
	bucket := c.quota.forBucket(c.attempts)
	bucket.Part = shares
	c.partitions = &admission.Table{
		Size:     cmp.Or(t.MaxPartitions, defaultMaxPartitions),
		Start:    t.spreadStart,
		Lines:    c.mode == Adaptive || c.quota.Wait || t.ShareRetryAfter || t.Shared != nil,
		NewQuota: func() *tokens.Quota { return tokens.NewQuota(bucket) },
		NewPacer: func() *pacer.Pacer { return nil },
	}
	if c.mode == Adaptive {
		c.setPacers(shares)
	}
	if shares {
		c.partitions.Join = t.Shared.Join
		common := c.shareConfig()
		c.partitions.NewShare = func(p *admission.Partition) *admission.Share { return admission.NewShare(p, common) }
	}
}

// setPacers makes the table make rate limiters, which may be those of a fleet.
func (c *config) setPacers(shares bool) {
	t, limits := c.transport, c.transport.RateLimit
	limits.Limits, limits.Cost = t.limits(), t.cost()
	c.failFast, c.limits = limits.FailFast, limits.Limits
	pace := limits.forPacer()
	c.partitions.NewPacer = func() *pacer.Pacer {
		p := pacer.New(pace)
		if shares {
			p.Share()
			if rate := t.Shared.FirstRate(); rate > 0 {
				p.Alone(rate, 0)
			}
		}
		return p
	}
}

// shareConfig returns what the shares of a Transport have in common. Its functions do
// not refer to the Transport.
func (c *config) shareConfig() admission.ShareConfig {
	self := weak.Make(c.transport)
	s := admission.ShareConfig{
		Capacity: max(c.quota.Capacity, 0), Cost: c.quota.mostCost(), PerCall: c.quota.costOfCall(c.attempts),
		InUse: func() bool { return self.Value() != nil }, Spread: c.spread.of, Quota: "no quota",
	}
	if c.transport.ShareRetryAfter {
		s.LongestRetryAfter = c.maxRetryAfter
	}
	if s.Capacity > 0 {
		s.TrafficOfCall = c.quota.Share * float64(s.PerCall)
		s.Quota = c.quota.inCommon()
	}
	if c.mode == Adaptive {
		s.Law = c.transport.RateLimit.inCommon()
	}
	return s
}

// A spread limits the random time that is added to a delay that Retry-After
// asks for.
type spread struct {
	fixed   time.Duration
	quarter bool // the default, which depends on the delay
}

func (s spread) of(asked time.Duration) time.Duration {
	if s.quarter {
		return min(asked/defaultSpreadPart, defaultMaxSpread)
	}
	return s.fixed
}
