// Package delivery sends HTTP requests as Amazon SNS delivers messages to HTTP/S endpoints: by a delivery policy
// with four phases of retries, a throttle and a content type, and with a dead-letter queue behind it.
//
// The rules are those of Amazon SNS, "Message delivery retries".
package delivery

// A BackoffFunction shapes the pauses of a delivery policy's backoff phase between minDelayTarget and
// maxDelayTarget. Amazon SNS, "Message delivery retries", names the four and draws them, without formulas.
type BackoffFunction string

// The functions, with k from 0 to n-1 for the n retries of the phase, from lo to hi. One single retry waits lo.
const (
	Arithmetic  BackoffFunction = "arithmetic"  // lo + (hi-lo) * k(k+1) / (n(n-1))
	Exponential BackoffFunction = "exponential" // lo + (hi-lo) * (2^k-1) / (2^(n-1)-1)
	Geometric   BackoffFunction = "geometric"   // lo * (hi/lo)^(k/(n-1))
	Linear      BackoffFunction = "linear"      // lo + (hi-lo) * k / (n-1)
)

// A Policy is the delivery policy of a subscription. A block that is nil was not given: no retry block means the
// defaults, no throttle block no throttling, no request block no content type.
// A policy marshals to the JSON that [Parse] reads, with the attributes that were given and no others.
type Policy struct {
	HealthyRetryPolicy *RetryPolicy    `json:"healthyRetryPolicy,omitempty"`
	ThrottlePolicy     *ThrottlePolicy `json:"throttlePolicy,omitempty"`
	RequestPolicy      *RequestPolicy  `json:"requestPolicy,omitempty"`
}

// A RetryPolicy says how often and when a failed delivery is tried again: NumNoDelayRetries at once, then
// NumMinDelayRetries spaced MinDelayTarget, then a backoff phase from MinDelayTarget to MaxDelayTarget, then
// NumMaxDelayRetries spaced MaxDelayTarget. The backoff phase has what NumRetries leaves over.
//
// nil, and "" for the function, stand for the default. Limits and defaults are those of Amazon SNS, "Message
// delivery retries"; there, all pauses together may not pass 3,600 seconds.
type RetryPolicy struct {
	MinDelayTarget     *int            `json:"minDelayTarget,omitempty"`     // seconds, 1 to MaxDelayTarget; nil: 20
	MaxDelayTarget     *int            `json:"maxDelayTarget,omitempty"`     // seconds, MinDelayTarget to 3,600; nil: 20
	NumRetries         *int            `json:"numRetries,omitempty"`         // all phases together, 0 to 100; nil: 3
	NumNoDelayRetries  *int            `json:"numNoDelayRetries,omitempty"`  // nil: 0
	NumMinDelayRetries *int            `json:"numMinDelayRetries,omitempty"` // nil: 0
	NumMaxDelayRetries *int            `json:"numMaxDelayRetries,omitempty"` // nil: 0
	BackoffFunction    BackoffFunction `json:"backoffFunction,omitempty"`    // "": Linear

	// fixed marks AWSManaged and CustomerManaged, which the limits on the number and the time of retries do not bind.
	fixed bool
}

// A ThrottlePolicy limits how often an endpoint is sent to.
type ThrottlePolicy struct {
	MaxReceivesPerSecond *int `json:"maxReceivesPerSecond,omitempty"` // attempts a second, 1 or more; nil: no throttling
}

// A RequestPolicy says what a delivery looks like.
type RequestPolicy struct {
	// HeaderContentType replaces the request's own Content-Type; [Policy.Validate] lists what it may be.
	// "": the request's own, or text/plain; charset=UTF-8 where it has none.
	HeaderContentType string `json:"headerContentType,omitempty"`
}

// A TopicPolicy is the delivery policy of a topic: the defaults of its HTTP/S subscriptions.
type TopicPolicy struct {
	HTTP *TopicHTTPPolicy `json:"http,omitempty"` // nil: nothing is set
}

// A TopicHTTPPolicy is what a [TopicPolicy] says of HTTP/S subscriptions. nil stands for what was not given.
type TopicHTTPPolicy struct {
	DefaultHealthyRetryPolicy *RetryPolicy `json:"defaultHealthyRetryPolicy,omitempty"`
	// DisableSubscriptionOverrides true: the subscriptions' own policies are not looked at; nil: false.
	DisableSubscriptionOverrides *bool           `json:"disableSubscriptionOverrides,omitempty"`
	DefaultThrottlePolicy        *ThrottlePolicy `json:"defaultThrottlePolicy,omitempty"`
	DefaultRequestPolicy         *RequestPolicy  `json:"defaultRequestPolicy,omitempty"`
}

// The defaults of Amazon SNS, "Message delivery retries".
const (
	defaultDelayTarget = 20 // seconds, both minDelayTarget and maxDelayTarget
	defaultNumRetries  = 3
	defaultContentType = "text/plain; charset=UTF-8"
)

// Effective returns the policy that a subscription is delivered by: each block (retry, throttle, request) is the
// subscription's where it has one, else the topic's, and only the topic's under disableSubscriptionOverrides. In
// the retry block, which is always there, what is missing has its default. Either argument may be nil. The
// result shares nothing with them.
func Effective(topic *TopicPolicy, subscription *Policy) *Policy {
	var p Policy
	if topic != nil && topic.HTTP != nil {
		h := topic.HTTP
		p = Policy{h.DefaultHealthyRetryPolicy, h.DefaultThrottlePolicy, h.DefaultRequestPolicy}
		if d := h.DisableSubscriptionOverrides; d != nil && *d {
			subscription = nil
		}
	}
	if subscription != nil {
		p.HealthyRetryPolicy = firstOf(subscription.HealthyRetryPolicy, p.HealthyRetryPolicy)
		p.ThrottlePolicy = firstOf(subscription.ThrottlePolicy, p.ThrottlePolicy)
		p.RequestPolicy = firstOf(subscription.RequestPolicy, p.RequestPolicy)
	}
	p.HealthyRetryPolicy = p.HealthyRetryPolicy.withDefaults()
	if t := p.ThrottlePolicy; t != nil {
		p.ThrottlePolicy = &ThrottlePolicy{clone(t.MaxReceivesPerSecond)}
	}
	p.RequestPolicy = clone(p.RequestPolicy)
	return &p
}

// AWSManaged is the fixed policy for the endpoints that AWS manages (Amazon Data Firehose, AWS Lambda, Amazon
// SQS): 3 retries at once, 2 spaced 1 s, 10 exponential from 1 to 20 s, 100,000 spaced 20 s; 23 days in all.
//
// Where Amazon Data Firehose throttles, [CustomerManaged] applies instead.
//
// The limits of an HTTP/S policy on the number of retries and on their total time do not bind it, so
// [Policy.Validate] lets it pass and [Parse] refuses its JSON.
func AWSManaged() *Policy { return fixedPolicy(3, 2, 10, 100_000, 1, 20) }

// CustomerManaged is the fixed policy for the endpoints that customers manage
// (SMTP, SMS, mobile push), and for Amazon Data Firehose where it throttles: 2
// retries spaced 10 s, 10 exponential from 10 to 600 s, 38 spaced 600 s; 6 hours
// in all.
//
// The limits of an HTTP/S policy on the total time do not bind it, so
// [Policy.Validate] lets it pass and [Parse] refuses its JSON.
func CustomerManaged() *Policy { return fixedPolicy(0, 2, 10, 38, 10, 600) }

func fixedPolicy(noDelay, minDelay, backoff, maxDelay, lo, hi int) *Policy {
	return &Policy{HealthyRetryPolicy: &RetryPolicy{
		MinDelayTarget:     ptr(lo),
		MaxDelayTarget:     ptr(hi),
		NumRetries:         ptr(noDelay + minDelay + backoff + maxDelay),
		NumNoDelayRetries:  ptr(noDelay),
		NumMinDelayRetries: ptr(minDelay),
		NumMaxDelayRetries: ptr(maxDelay),
		BackoffFunction:    Exponential,
		fixed:              true,
	}}
}

// withDefaults returns a copy of r in which every field is set. r may be nil.
func (r *RetryPolicy) withDefaults() *RetryPolicy {
	if r == nil {
		r = &RetryPolicy{}
	}
	f := &RetryPolicy{
		MinDelayTarget:     ptr(valueOr(r.MinDelayTarget, defaultDelayTarget)),
		MaxDelayTarget:     ptr(valueOr(r.MaxDelayTarget, defaultDelayTarget)),
		NumRetries:         ptr(valueOr(r.NumRetries, defaultNumRetries)),
		NumNoDelayRetries:  ptr(valueOr(r.NumNoDelayRetries, 0)),
		NumMinDelayRetries: ptr(valueOr(r.NumMinDelayRetries, 0)),
		NumMaxDelayRetries: ptr(valueOr(r.NumMaxDelayRetries, 0)),
		BackoffFunction:    r.BackoffFunction,
		fixed:              r.fixed,
	}
	if f.BackoffFunction == "" {
		f.BackoffFunction = Linear
	}
	return f
}

func ptr[T any](v T) *T { return &v }

func valueOr[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return ptr(*p)
}

func firstOf[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}
