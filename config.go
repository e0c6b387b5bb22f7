package awsretry

import (
	"errors"
	"fmt"
	"net/http"

	"sync"
	"time"

	"example.com/awsretry/internal/neterr"
	"example.com/awsretry/internal/retrier"
	"github.com/hashicorp/go-cleanhttp"
)

// A Mode is a set of rules for retries, as the AWS SDKs and Tools Reference Guide, "Retry behavior", names them.
type Mode string

const (
	Standard Mode = "standard" // a retry token bucket and jittered exponential backoff
	Adaptive Mode = "adaptive" // Standard, and a rate limiter that holds back first attempts too
	Legacy   Mode = "legacy"   // the AWS SDK for Go v1's rules: 4 attempts, no bucket, and pauses of its own
)

// A Revision tells the rules that the AWS documents give from those that the AWS SDKs announced for 2026. Legacy
// mode has no revisions.
type Revision int

const (
	Classic      Revision = iota // the documents' rules
	Revision2026                 // shorter pauses, other costs, x-amz-retry-after
)

// String returns "classic" or "2026".
func (r Revision) String() string {
	switch r {
	case Classic:
		return "classic"
	case Revision2026:
		return "2026"
	}
	return "unknown revision"
}

// The attempts in all, the first included: the AWS SDKs and Tools Reference Guide, "Retry behavior", of Legacy the AWS
// SDK for Go v1, of DynamoDB the 2026 revision.
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
	defaultMaxBodyBuffer = 1 << 20
	defaultMaxRetryAfter = time.Minute
)

// The costs of a retry: the AWS SDK for Kotlin, "Retries", and the 2026 revision.
var (
	classicCosts = costs{transient: 5, timeout: 10, throttling: 10}
	costs2026    = costs{transient: 14, timeout: 14, throttling: 5}
)

const defaultSuccessIncrement = 1

// dynamoDBRules go before attempts and backoff for requests to Amazon DynamoDB.
type dynamoDBRules struct {
	attempts int
	backoff  Backoff
}

type costs struct{ transient, timeout, throttling int }

func (c costs) of(class Class) int {
	switch class {
	case Throttled:
		return c.throttling
	case Timeout:
		return c.timeout
	}
	return c.transient
}

// The 2026 revision's pauses.
var (
	backoff2026         = Exponential{Initial: 50 * time.Millisecond, ThrottlingInitial: time.Second}
	backoffDynamoDB2026 = Exponential{Initial: 25 * time.Millisecond, ThrottlingInitial: time.Second}
)

// An engine is a Transport's fields with every default filled in. It does not change.
type engine struct {
	base  http.RoundTripper
	conns *neterr.Connections // of base; nil where they are not told apart

	mode     Mode
	revision Revision
	attempts int // in all
	timeout  time.Duration
	policy   Policy // nil: DefaultPolicy, called without making the Attempt escape
	backoff  Backoff
	dynamoDB *dynamoDBRules // nil where it has no rules of its own

	ignoreRetryAfter bool
	maxRetryAfter    time.Duration
	retryAfter       func(*http.Response, []byte) (time.Duration, bool)
	retryAfterSpread time.Duration
	partialSpread    bool // the spread is a part of the delay, in place of retryAfterSpread
	shareRetryAfter  bool

	costs       costs
	initialCost int
	increment   int
	capacity    int
	waitTokens  bool
	failFast    bool
	boundedWait bool // maxWait bounds the wait for a send token
	maxWait     time.Duration

	partitionName func(*http.Request) string
	partitions    *partitionTable

	plain      bool // the first attempt needs nothing but sending, unless the request asks for more
	ownRequest bool // the first attempt too needs a request that is not the caller's
	maxBuffer  int64
	hook       func(*http.Request, int) error // Prepare
	longPoll   func(*http.Request) bool
	headers    bool
	nested     bool
	observe    func(Attempt)
}

// The health checks of the default Base's HTTP/2 connections: one that was silent
// for sendPingTimeout is asked for a sign of life, and closed without one.
const (
	sendPingTimeout = 15 * time.Second
	pingTimeout     = 5 * time.Second
)

// defaultBase is one for the process, so that Transports share its connections.
var defaultBase = sync.OnceValue(func() http.RoundTripper {
	t := cleanhttp.DefaultPooledTransport()
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: sendPingTimeout, PingTimeout: pingTimeout}
	return t
})

// start returns the engine, which the first call makes.
func (t *Transport) start() (*engine, error) {
	if e := t.running.Load(); e != nil {
		return e, nil
	}
	t.starting.Lock()
	defer t.starting.Unlock()
	if e := t.running.Load(); e != nil {
		return e, nil
	}
	if err := t.Validate(); err != nil {
		return nil, err
	}
	e := t.newEngine()
	t.running.Store(e)
	return e, nil
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return defaultBase()
}

func (t *Transport) newEngine() *engine {
	e := &engine{
		base:          t.base(),
		mode:          t.Mode,
		revision:      t.Revision,
		timeout:       t.AttemptTimeout,
		policy:        t.Policy,
		increment:     max(orDefault(t.Quota.SuccessIncrement, defaultSuccessIncrement), 0),
		initialCost:   t.Quota.InitialCost,
		waitTokens:    t.Quota.Wait,
		partitionName: t.Partition,
		ownRequest:    t.AttemptTimeout > 0 || t.Prepare != nil || t.SDKHeaders,
		maxBuffer:     max(orDefault(t.MaxBodyBuffer, defaultMaxBodyBuffer), 0),
		hook:          t.Prepare,
		longPoll:      t.LongPoll,
		headers:       t.SDKHeaders,
		nested:        t.NestedRetries,
		observe:       t.Observe,

		ignoreRetryAfter: t.MaxRetryAfter < 0,
		maxRetryAfter:    max(orDefault(t.MaxRetryAfter, defaultMaxRetryAfter), 0),
		retryAfter:       t.RetryAfter,
		retryAfterSpread: max(t.RetryAfterSpread, 0),
		shareRetryAfter:  t.ShareRetryAfter,
	}
	if e.mode == "" {
		e.mode = Standard
	}
	quota := t.Quota
	if e.mode == Legacy {
		e.revision = Classic
		quota = QuotaConfig{Capacity: -1}
		e.initialCost, e.increment, e.waitTokens = 0, 0, false
	}
	t.setPauses(e)
	e.capacity = quota.capacity()
	e.costs = classicCosts
	if e.revision == Revision2026 {
		e.costs = costs2026
	}
	for _, cost := range []struct{ own, field *int }{
		{&e.costs.transient, &quota.RetryCost},
		{&e.costs.timeout, &quota.TimeoutCost},
		{&e.costs.throttling, &quota.ThrottlingCost},
	} {
		*cost.own = max(orDefault(*cost.field, *cost.own), 0)
	}
	adaptive := e.mode == Adaptive
	e.plain = !adaptive && !e.ownRequest && e.policy == nil && e.observe == nil && e.partitionName == nil && e.initialCost == 0 &&
		!e.shareRetryAfter
	e.failFast = adaptive && t.RateLimit.FailFast
	e.boundedWait, e.maxWait = adaptive && t.RateLimit.MaxWait > 0, t.RateLimit.MaxWait
	e.partialSpread = t.RetryAfterSpread == 0 && e.mode != Legacy
	limits := t.RateLimit
	e.partitions = &partitionTable{
		size:     orDefault(t.MaxPartitions, defaultMaxPartitions),
		newQuota: func() *Quota { return NewQuota(quota) },
		newLimiter: func() *RateLimiter {
			if !adaptive {
				return nil
			}
			return NewRateLimiter(limits)
		},
		hasLines: adaptive || e.waitTokens || e.shareRetryAfter,
		byName:   make(map[string]*partition),
	}
	if pooled, ok := e.base.(*http.Transport); ok && !t.KeepConnections {
		e.conns = neterr.NewConnections(pooled)
	}
	return e
}

// The random part of a pause that Retry-After asks for, where the Transport does
// not say it: a quarter of the pause, 5 s at most.
const (
	defaultSpreadPart = 4
	defaultMaxSpread  = 5 * time.Second
)

// spreadOf is the longest time that is added to a pause that Retry-After asks
// for.
func (e *engine) spreadOf(asked time.Duration) time.Duration {
	if e.partialSpread {
		return min(asked/defaultSpreadPart, defaultMaxSpread)
	}
	return e.retryAfterSpread
}

// setPauses sets the attempts and the pauses: those of t's fields, else the mode's and revision's.
func (t *Transport) setPauses(e *engine) {
	e.attempts = orDefault(t.MaxAttempts, defaultAttempts(e.mode))
	switch {
	case t.Backoff == nil && e.mode == Legacy:
		e.backoff = legacyBackoff{}
	case e.revision == Revision2026:
		e.backoff = completed(t.Backoff, backoff2026)
		e.dynamoDB = &dynamoDBRules{orDefault(t.MaxAttempts, dynamoDBAttempts), completed(t.Backoff, backoffDynamoDB2026)}
	default:
		e.backoff = completed(t.Backoff, Exponential{})
	}
}

// completed is b, with the revision's pauses where it is an Exponential that leaves them open, and where it is nil.
func completed(b Backoff, revision Exponential) Backoff {
	switch b := b.(type) {
	case nil:
		return revision
	case Exponential:
		return b.completed(revision)
	case *Exponential:
		return b.completed(revision)
	}
	return b
}

// Validate reports what in the configuration makes no sense: nil, or an error that names each such field, its value and
// what is allowed. RoundTrip returns the same error before sending anything.
func (t *Transport) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("awsretry: Transport."+format, args...))
	}
	switch t.Mode {
	case "", Standard, Adaptive, Legacy:
	default:
		fault("Mode is %q; it must be %q, %q or %q, or empty for %[2]q", t.Mode, Standard, Adaptive, Legacy)
	}
	if t.Revision != Classic && t.Revision != Revision2026 {
		fault("Revision is %d; it must be Classic or Revision2026", t.Revision)
	}
	if t.MaxAttempts < 0 {
		fault("MaxAttempts is %d; it must be above 0, where 1 means no retry, or 0 for the mode's default", t.MaxAttempts)
	}
	if t.AttemptTimeout < 0 {
		fault("AttemptTimeout is %v; it must be above 0, or 0 for none", t.AttemptTimeout)
	}
	if t.MaxPartitions < 0 {
		fault("MaxPartitions is %d; it must be above 0, or 0 for %d", t.MaxPartitions, defaultMaxPartitions)
	}
	if err := validBackoff(t.Backoff); err != nil {
		fault("%w", err)
	}
	if err := t.Quota.validate(); err != nil {
		fault("%w", err)
	}
	if err := t.RateLimit.validate(); err != nil {
		fault("%w", err)
	}
	return errors.Join(append(faults, retrier.CheckBase("awsretry: Transport.Base", t.Base))...)
}

// validBackoff returns an error where b, which may be nil, makes no sense.
func validBackoff(b Backoff) error {
	if retrier.IsNil(b) {
		return fmt.Errorf("Backoff is a nil %T; it must be a usable Backoff, or nil for the mode's", b)
	}
	if b, ok := b.(interface{ validate() error }); ok {
		return b.validate()
	}
	return nil
}
