package awsretry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"weak"

	"example.com/awsretry/internal/admission"
	"example.com/awsretry/internal/awsproto"
	"example.com/awsretry/internal/invalid"
	"example.com/awsretry/internal/neterr"
	"example.com/awsretry/internal/pacer"
	"example.com/awsretry/internal/retrier"
	"example.com/awsretry/internal/tokens"
	"github.com/hashicorp/go-cleanhttp"
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

const defaultSuccessIncrement = 1 // AWS SDK for Kotlin, "Retries"

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

// A config is a Transport's fields with the defaults filled in. It does not
// change.
type config struct {
	base  http.RoundTripper
	conns *neterr.Connections // of base; nil if retries may use any of them

	foreign  bool // base is not an http.Transport
	untraced bool // base is one that may send requests without calling the hooks of httptrace

	mode     Mode
	revision Revision
	attempts int
	timeout  time.Duration
	stall    time.Duration
	policy   Policy // nil means DefaultPolicy, which is called without an allocation
	backoff  Backoff
	dynamoDB *dynamoDBRules // nil means none

	ignoreRetryAfter bool
	maxRetryAfter    time.Duration
	retryAfter       func(*http.Response, []byte) (time.Duration, bool)
	spread           spread
	uncalled         admission.Partition // of delays without a call
	shareRetryAfter  bool

	costs       costs
	initialCost int
	increment   int
	capacity    int
	waitTokens  bool
	quotaShare  float64
	failFast    bool
	limits      func(*http.Response) []Limit // nil except in adaptive mode

	servicePolicy Policy // which DefaultPolicy calls; nil if there is none
	partitionName func(*http.Request) string
	partitions    *admission.Table

	fastPathAllowed bool // for a first attempt
	resume          bool
	ownRequest      bool // a first attempt needs a copy of the caller's request
	maxBuffer       int64
	prepare         func(*http.Request, int) error
	longPoll        func(*http.Request) bool
	sdkHeaders      bool
	nested          bool
	observe         func(Attempt)
	peek            func(*http.Response, []byte) bool
	keyOf           func(*http.Request) string // the Idempotency-Key
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
		base:          t.base(),
		mode:          cmp.Or(t.Mode, Standard),
		revision:      t.Revision,
		timeout:       t.AttemptTimeout,
		stall:         t.StallTimeout,
		policy:        t.policy(),
		servicePolicy: t.servicePolicy(),
		partitionName: t.Partition,
		ownRequest:    t.AttemptTimeout > 0 || t.StallTimeout > 0 || t.Prepare != nil || t.SDKHeaders,
		maxBuffer:     max(cmp.Or(t.MaxBodyBuffer, defaultMaxBodyBuffer), 0),
		prepare:       t.Prepare,
		longPoll:      t.LongPoll,
		sdkHeaders:    t.SDKHeaders,
		nested:        t.NestedRetries,
		observe:       t.Observe,
		peek:          t.Peek,
		keyOf:         t.IdempotencyKey,
		resume:        t.Resume,

		ignoreRetryAfter: t.MaxRetryAfter < 0,
		maxRetryAfter:    max(cmp.Or(t.MaxRetryAfter, defaultMaxRetryAfter), 0),
		retryAfter:       t.RetryAfter,
		spread:           spread{max(t.RetryAfterSpread, 0), t.RetryAfterSpread == 0 && t.Mode != Legacy},
		shareRetryAfter:  t.ShareRetryAfter,
	}
	if c.mode == Legacy {
		c.revision = Classic
	}
	pooled, ok := c.base.(*http.Transport)
	if ok && !t.KeepConnections {
		c.conns = neterr.NewConnections(pooled)
	}
	c.foreign, c.untraced = !ok, ok && !neterr.Traces(pooled)
	c.setDelays(t)
	c.setBuckets(t)
	c.fastPathAllowed = !c.ownRequest && c.policy.isDefault() && c.servicePolicy == nil && c.observe == nil && c.partitionName == nil && c.initialCost == 0 &&
		!c.shareRetryAfter && !c.resume && c.limits == nil && c.peek == nil && c.keyOf == nil
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
	case req.URL == nil: // net/http refuses it
		return c.partitions.Get("")
	case c.partitionName != nil:
		return c.partitions.Get(c.partitionName(req))
	}
	return c.partitions.OfHost(req.URL.Host)
}

// retriedOutside reports whether the AWS SDK that made the request retries it.
func (c *config) retriedOutside(req *http.Request) bool { return !c.nested && awsproto.OuterLoop(req) }

// base returns Base or its default.
func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return defaultBase()
}

// HTTP/2 connections of the default Base are pinged after sendPingTimeout
// without a frame, and closed if no reply comes within pingTimeout.
const (
	sendPingTimeout = 15 * time.Second
	pingTimeout     = 5 * time.Second
)

// defaultBase returns the default of Base. There is one for the process, so
// that Transports share its connections.
var defaultBase = sync.OnceValue(func() http.RoundTripper {
	t := cleanhttp.DefaultPooledTransport()
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: sendPingTimeout, PingTimeout: pingTimeout}
	return t
})

// setDelays sets the attempts and the delays.
func (c *config) setDelays(t *Transport) {
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
func (c *config) setBuckets(t *Transport) {
	quota, limits := t.Quota, t.RateLimit
	limits.Limits, limits.Cost = t.limits(), t.cost()
	if c.mode == Legacy {
		quota = QuotaConfig{Capacity: -1, SuccessIncrement: -1}
	}
	c.capacity = quota.capacity()
	c.waitTokens = quota.Wait
	c.quotaShare = quota.Share
	c.initialCost = quota.InitialCost
	c.increment = max(cmp.Or(quota.SuccessIncrement, defaultSuccessIncrement), 0)
	costs := classicCosts
	if c.revision == Revision2026 {
		costs = costs2026
	}
	c.costs = costs.with(quota)

	if c.mode == Adaptive {
		c.failFast, c.limits = limits.FailFast, limits.Limits
	}
	shares := t.Shared != nil && (c.capacity > 0 || c.mode == Adaptive || c.shareRetryAfter)
	bucket := quota.forBucket(c.costs.ofCall(c.attempts))
	bucket.Part = shares && quota.Share > 0
	c.partitions = &admission.Table{
		Size:     cmp.Or(t.MaxPartitions, defaultMaxPartitions),
		Start:    t.spreadStart,
		Lines:    c.mode == Adaptive || c.waitTokens || c.shareRetryAfter,
		NewQuota: func() *tokens.Quota { return tokens.NewQuota(bucket) },
		NewPacer: func() *pacer.Pacer { return nil },
	}
	if c.mode == Adaptive {
		pace := limits.withDefaults().forPacer()
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
	if shares {
		c.partitions.Join = t.Shared.Join
		common := c.shareConfig(t)
		c.partitions.NewShare = func(p *admission.Partition) *admission.Share { return admission.NewShare(p, common) }
	}
}

// shareConfig returns what the shares of t have in common. Its functions do not
// refer to c, whose hooks may refer to t.
func (c *config) shareConfig(t *Transport) admission.ShareConfig {
	self := weak.Make(t)
	s := admission.ShareConfig{
		Capacity: max(c.capacity, 0), Cost: c.costs.most(), PerCall: c.costs.ofCall(c.attempts),
		InUse: func() bool { return self.Value() != nil }, Spread: c.spread.of, Quota: "no quota",
	}
	if c.shareRetryAfter {
		s.LongestRetryAfter = c.maxRetryAfter
	}
	if s.Capacity > 0 {
		s.TrafficOfCall = c.quotaShare * float64(s.PerCall)
		quota := func(capacity, increment int, share float64, costs costs) QuotaConfig {
			return QuotaConfig{
				Capacity: capacity, SuccessIncrement: increment, Share: share,
				RetryCost: costs.transient, TimeoutCost: costs.timeout, ThrottlingCost: costs.throttling,
			}
		}
		s.Quota = unusual(quota(s.Capacity, c.increment, c.quotaShare, c.costs), quota(0, defaultSuccessIncrement, 0, classicCosts))
	}
	if c.mode == Adaptive {
		own := t.RateLimit.withDefaults()
		own.FailFast, own.MaxWait = false, 0 // each process may have its own, and functions
		usual := RateLimitConfig{Pacing: own.Pacing}.withDefaults()
		s.Law = strings.TrimSpace(own.Pacing.String() + " " + unusual(own, usual))
	}
	return s
}

// unusual returns the names and values of the fields that are not the usual ones,
// but for functions. A store takes more memory for long texts.
func unusual(own, usual any) string {
	var words []string
	v, u := reflect.ValueOf(own), reflect.ValueOf(usual)
	for i := range v.NumField() {
		if field := v.Field(i); field.Comparable() && !field.Equal(u.Field(i)) {
			words = append(words, fmt.Sprintf("%s:%v", v.Type().Field(i).Name, field))
		}
	}
	return strings.Join(words, " ")
}

// A spread limits the random time that is added to a delay that Retry-After
// asks for.
type spread struct {
	fixed   time.Duration
	partial bool // the default, which depends on the delay
}

func (s spread) of(asked time.Duration) time.Duration {
	if s.partial {
		return min(asked/defaultSpreadPart, defaultMaxSpread)
	}
	return s.fixed
}

// Validate returns an error if the configuration is not valid. The error names
// each such field, its value and what is allowed. RoundTrip returns the same
// error and sends nothing.
func (t *Transport) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, &invalid.Field{In: "awsretry: Transport.", Err: fmt.Errorf(format, args...)})
	}
	check := func(ok bool, field string, value any, allowed string, args ...any) {
		if err := invalid.Check(ok, field, value, allowed, args...); err != nil {
			fault("%w", err)
		}
	}
	modes := []Mode{"", Standard, Adaptive, Legacy}
	check(slices.Contains(modes, t.Mode), "Mode", strconv.Quote(string(t.Mode)),
		"%q, %q or %q, or empty for %[1]q", Standard, Adaptive, Legacy)
	check(t.Revision >= DefaultRevision && t.Revision <= Revision2026, "Revision", int(t.Revision),
		"Classic or Revision2026, or 0 for Classic")
	check(t.MaxAttempts >= 0, "MaxAttempts", t.MaxAttempts, "above 0, where 1 means no retry, or 0 for the mode's default")
	check(t.AttemptTimeout >= 0, "AttemptTimeout", t.AttemptTimeout, "above 0, or 0 for none")
	check(t.StallTimeout >= 0, "StallTimeout", t.StallTimeout, "above 0, or 0 for none")
	check(t.MaxPartitions >= 0, "MaxPartitions", t.MaxPartitions, "above 0, or 0 for %d", defaultMaxPartitions)
	if err := validBackoff(t.Backoff); err != nil {
		fault("%w", err)
	}
	if err := t.service.validate(); err != nil {
		fault("%w", err)
	}
	if err := t.Quota.validate(); err != nil {
		fault("%w", err)
	}
	if err := t.RateLimit.validate(); err != nil {
		fault("%w", err)
	}
	where, limits, hasLimits := "with Limits", t.RateLimit, t.Mode == Adaptive && t.limits() != nil
	if t.Mode != Adaptive {
		where = fmt.Sprintf("in Mode %q, and Mode is %q", Adaptive, cmp.Or(t.Mode, Standard))
		if t.ownLimits() {
			fault("RateLimit.Limits is set; it must be nil except %s", where)
		}
		if limits.Pacing == ScaledPacing {
			fault("RateLimit.Pacing is %v; it must be %v except %s", limits.Pacing, CubicPacing, where)
		}
	}
	if limits.Cost != nil && !hasLimits {
		fault("RateLimit.Cost is set; it must be nil except %s", where)
	}
	if limits.Reserve != 0 && !hasLimits {
		fault("RateLimit.Reserve is %v; it must be 0 except %s", limits.Reserve, where)
	}
	if t.Shared != nil {
		if err := t.Shared.Validate(t.Mode); err != nil {
			fault("Shared: %w", err)
		}
		if t.Quota.InitialCost > 0 {
			fault("Quota.InitialCost is %d; with Shared it must be 0: each process has few of the tokens at a time, "+
				"so first attempts would be refused", t.Quota.InitialCost)
		}
		if t.Quota.RefillPerSecond > 0 {
			fault("Quota.RefillPerSecond is %v; with Shared it must be 0: it would be that of each process",
				t.Quota.RefillPerSecond)
		}
	}
	if err := retrier.CheckBase("Base", t.Base); err != nil {
		fault("%w", err)
	}
	return errors.Join(faults...)
}
