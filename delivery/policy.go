package delivery

import (
	"slices"
	"time"
)

// A Policy is the delivery policy of a subscription. A nil block is absent:
// without a retry block the defaults apply, without a throttle block there is
// no throttling, without a request block no content type is set. A policy
// marshals to the JSON that [Parse] reads, without the absent attributes.
type Policy struct {
	HealthyRetryPolicy *RetryPolicy    `json:"healthyRetryPolicy,omitempty"`
	ThrottlePolicy     *ThrottlePolicy `json:"throttlePolicy,omitempty"`
	RequestPolicy      *RequestPolicy  `json:"requestPolicy,omitempty"`

	// Schedule has the delays before the retries, which vary by a tenth to either side,
	// in place of HealthyRetryPolicy. Amazon SNS has no such attribute: its limits do not
	// apply, and the JSON does not have it. There may be up to 1,000. nil:
	// HealthyRetryPolicy; empty: there are no retries.
	Schedule []time.Duration `json:"-"`
}

// A RetryPolicy sets how often and when a failed delivery is retried:
// NumNoDelayRetries at once, then NumMinDelayRetries spaced MinDelayTarget,
// then a backoff phase from MinDelayTarget to MaxDelayTarget, then
// NumMaxDelayRetries spaced MaxDelayTarget. The backoff phase has the rest of
// NumRetries.
//
// A nil field or an empty BackoffFunction means the default. Limits and
// defaults are those of Amazon SNS, "Message delivery retries". The sum of the
// delays may be at most 3,600 seconds.
type RetryPolicy struct {
	MinDelayTarget     *int            `json:"minDelayTarget,omitempty"`     // seconds, 1 to MaxDelayTarget; nil: 20
	MaxDelayTarget     *int            `json:"maxDelayTarget,omitempty"`     // seconds, MinDelayTarget to 3600; nil: 20
	NumRetries         *int            `json:"numRetries,omitempty"`         // all phases together, 0 to 100; nil: 3
	NumNoDelayRetries  *int            `json:"numNoDelayRetries,omitempty"`  // nil: 0
	NumMinDelayRetries *int            `json:"numMinDelayRetries,omitempty"` // nil: 0
	NumMaxDelayRetries *int            `json:"numMaxDelayRetries,omitempty"` // nil: 0
	BackoffFunction    BackoffFunction `json:"backoffFunction,omitempty"`    // "": Linear

	// fixed is set in AWSManaged and CustomerManaged, which are exempt from the
	// limits on the number and the total time of retries.
	fixed bool
}

// A ThrottlePolicy limits the rate of the attempts.
type ThrottlePolicy struct {
	// MaxReceivesPerSecond is in attempts a second, 1 to 2,147,483,647. nil: no
	// throttling.
	MaxReceivesPerSecond *int `json:"maxReceivesPerSecond,omitempty"`
}

// A RequestPolicy sets headers of the requests.
type RequestPolicy struct {
	// HeaderContentType replaces the request's own Content-Type. See
	// [Policy.ValidateWrapped] and [Policy.ValidateRaw] for what is allowed.
	// "": the request's own, or text/plain; charset=UTF-8 if it has none.
	HeaderContentType string `json:"headerContentType,omitempty"`
}

// A TopicPolicy is the delivery policy of a topic: the defaults of its HTTP/S
// subscriptions.
type TopicPolicy struct {
	HTTP *TopicHTTPPolicy `json:"http,omitempty"` // nil: absent
}

// A TopicHTTPPolicy is the part of a [TopicPolicy] for HTTP/S subscriptions. A
// nil field is absent.
type TopicHTTPPolicy struct {
	DefaultHealthyRetryPolicy *RetryPolicy `json:"defaultHealthyRetryPolicy,omitempty"`
	// DisableSubscriptionOverrides makes Effective ignore the subscriptions'
	// own policies. nil: false.
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

// Effective returns the policy that applies to a subscription. Each block
// (retry, throttle, request) is the subscription's if it has one, and otherwise
// the topic's; with disableSubscriptionOverrides it is always the topic's. The
// result has a retry block with every attribute set, or a Schedule. Either argument may
// be nil. The result shares no memory with them.
func Effective(topic *TopicPolicy, subscription *Policy) *Policy {
	var p Policy
	if topic != nil && topic.HTTP != nil {
		h := topic.HTTP
		p = Policy{
			HealthyRetryPolicy: h.DefaultHealthyRetryPolicy, ThrottlePolicy: h.DefaultThrottlePolicy,
			RequestPolicy: h.DefaultRequestPolicy,
		}
		if d := h.DisableSubscriptionOverrides; d != nil && *d {
			subscription = nil
		}
	}
	if subscription != nil {
		p.Schedule = slices.Clone(subscription.Schedule)
		p.HealthyRetryPolicy = firstOf(subscription.HealthyRetryPolicy, p.HealthyRetryPolicy)
		p.ThrottlePolicy = firstOf(subscription.ThrottlePolicy, p.ThrottlePolicy)
		p.RequestPolicy = firstOf(subscription.RequestPolicy, p.RequestPolicy)
	}
	if p.Schedule != nil {
		p.HealthyRetryPolicy = nil
	} else {
		p.HealthyRetryPolicy = p.HealthyRetryPolicy.withDefaults()
	}
	if t := p.ThrottlePolicy; t != nil {
		p.ThrottlePolicy = &ThrottlePolicy{clone(t.MaxReceivesPerSecond)}
	}
	p.RequestPolicy = clone(p.RequestPolicy)
	return &p
}

// AWSManaged returns the fixed policy for endpoints that AWS manages (Amazon
// Data Firehose, AWS Lambda, Amazon SQS): 3 retries without delay, 2 spaced 1
// s, 10 exponential from 1 to 20 s, 100,000 spaced 20 s; in all 23 days. When
// Amazon Data Firehose throttles, [CustomerManaged] applies instead.
//
// The limits of an HTTP/S policy on the number of retries and on their total
// time do not apply to it: [Policy.ValidateRaw] accepts it, [Parse] refuses its
// JSON.
func AWSManaged() *Policy { return fixedPolicy(3, 2, 10, 100_000, 1, 20) }

// CustomerManaged returns the fixed policy for endpoints that customers manage
// (SMTP, SMS, mobile push), and for Amazon Data Firehose when it throttles: 2
// retries spaced 10 s, 10 exponential from 10 to 600 s, 38 spaced 600 s; in all
// 6 hours.
//
// The limit of an HTTP/S policy on the total time does not apply to it:
// [Policy.ValidateRaw] accepts it, [Parse] refuses its JSON.
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

// withDefaults returns a copy of r, which may be nil, with every field set.
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
