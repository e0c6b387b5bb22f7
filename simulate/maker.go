package simulate

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
	"example.com/awsretry/internal/regularfile"
	"example.com/awsretry/internal/retrier"
	"example.com/awsretry/simulate/scenario"
)

const (
	defaultNaiveAttempts = 3
	defaultNaivePause    = 100 * time.Millisecond
	defaultStoreLatency  = time.Millisecond
	quotaShare           = 0.2 // of calls, as in GEP-3388 of the Kubernetes Gateway API

	// leastSpread is used instead of none, so that callers that wait for the same
	// Retry-After do not wake at the same instant.
	leastSpread = time.Millisecond
)

// quotas are the retry token buckets with a name.
var quotas = map[string]awsretry.QuotaConfig{
	"": {}, // the revision's quota

	// AWS SDK for Kotlin, "Retries".
	scenario.QuotaDocuments: {RetryCost: 5, TimeoutCost: 10, ThrottlingCost: 10},

	// The AWS SDKs for Go and Python, whose retries after throttling are
	// cheaper than the documents say.
	scenario.QuotaSDK: {RetryCost: 5, TimeoutCost: 10, ThrottlingCost: 5},

	// The AWS SDKs' rules of 2026.
	scenario.Quota2026: {RetryCost: 14, TimeoutCost: 14, ThrottlingCost: 5},

	scenario.QuotaNone: {Capacity: -1},
}

// A maker makes the RoundTrippers of one setting.
type maker struct {
	capacity int  // of the retry token bucket; 0: the setting has none
	limits   bool // the setting has a rate limiter
	make     func(link) http.RoundTripper
	shared   *sharedStore // of all clients; nil: they do not share
	end      func()       // stops what the RoundTrippers run, in virtual time; nil: nothing

	attemptTimeout time.Duration // 0: that of the clients
}

// A link is what a maker builds one client's RoundTripper on.
type link struct {
	base           http.RoundTripper
	attemptTimeout time.Duration
	grid           grid
	seed           uint64 // the client's own
	owner          int    // of the client's arrivals
}

// modes are the settings with the AWS SDKs' rules.
var modes = map[string]struct {
	mode     awsretry.Mode
	revision awsretry.Revision
}{
	scenario.UseLegacy:       {awsretry.Legacy, awsretry.Classic},
	scenario.UseStandard:     {awsretry.Standard, awsretry.Classic},
	scenario.UseRevision2026: {awsretry.Standard, awsretry.Revision2026},
	scenario.UseAdaptive:     {awsretry.Adaptive, awsretry.Classic},
}

// newMaker reads what the setting names. It must be called outside virtual time.
func newMaker(s scenario.Setting, getenv func(string) string) (maker, error) {
	switch {
	case s.New != nil:
		return maker{make: func(l link) http.RoundTripper { return s.New(newImpatient(l)) }}, nil
	case s.Use == scenario.UseNone:
		return loops(s, 1), nil
	case s.Use == scenario.UseNaive:
		return loops(s, cmp.Or(s.MaxAttempts, defaultNaiveAttempts)), nil
	case s.Use == scenario.UseFleet:
		return sharingMaker(s), nil
	case s.Use == scenario.UseDelivery:
		return deliveries(s)
	case s.Use == scenario.UseProfile:
		loaded, err := awsretry.Load(awsretry.Source{Profile: s.Profile, Getenv: getenv})
		if err != nil {
			return maker{}, err
		}
		if (s.Pacing != "" || s.Limits) && loaded.Mode != awsretry.Adaptive {
			return maker{}, fmt.Errorf("pacing and limits are for adaptive mode only, and the profile's mode is %s", loaded.Mode)
		}
		return transports(s, loaded.Mode, loaded.Revision, loaded.MaxAttempts), nil
	}
	return transports(s, modes[s.Use].mode, modes[s.Use].revision, 0), nil
}

// loops makes clients that retry after a fixed delay if the class allows a retry.
// They have no token bucket and ignore Retry-After.
func loops(s scenario.Setting, attempts int) maker {
	delay := cmp.Or(time.Duration(s.Pause), defaultNaivePause)
	return maker{make: func(l link) http.RoundTripper {
		fixed := l.grid.rounded(delay)
		return &awsretry.Transport{
			Base: l.base, MaxAttempts: attempts, AttemptTimeout: l.attemptTimeout, MaxRetryAfter: -1,
			Quota:   awsretry.QuotaConfig{Capacity: -1},
			Backoff: awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return fixed }),
		}
	}}
}

// transports makes clients that follow the AWS SDKs' rules.
func transports(s scenario.Setting, mode awsretry.Mode, revision awsretry.Revision, attempts int) maker {
	quota := quotas[s.Quota]
	quota.Capacity = cmp.Or(s.Capacity, quota.Capacity)
	if s.Share {
		quota.Share = quotaShare
	}
	capacity := 0
	if mode != awsretry.Legacy && quota.Capacity >= 0 {
		capacity = awsretry.NewQuota(awsretry.QuotaConfig{Capacity: quota.Capacity}).Tokens()
	}
	make := func(l link) http.RoundTripper {
		t := &awsretry.Transport{
			Base: l.base, AttemptTimeout: l.attemptTimeout, Mode: mode, Revision: revision,
			MaxAttempts: cmp.Or(s.MaxAttempts, attempts), Quota: quota,
			LongPoll:        func(*http.Request) bool { return s.LongPoll },
			ShareRetryAfter: s.ShareRetryAfter, Resume: s.Resume,
			Backoff: seededBackoff(mode, l.seed, l.grid),
		}
		t.StartSpread(retrier.Seal{}, random(l.seed, forRetryAfter)|1)
		if s.NoSpread {
			t.RetryAfterSpread = leastSpread
		}
		if s.Pacing == awsretry.ScaledPacing.String() {
			t.RateLimit.Pacing = awsretry.ScaledPacing
		}
		if s.Limits {
			t.RateLimit.Limits = awsretry.ReadLimits
		}
		return t
	}
	return maker{capacity: capacity, limits: mode == awsretry.Adaptive, make: make}
}

// deliveries makes clients with the setting's delivery policy.
func deliveries(s scenario.Setting) (maker, error) {
	policy, err := deliveryPolicy(s)
	if err != nil {
		return maker{}, err
	}
	return maker{make: func(l link) http.RoundTripper {
		full := seededJitter(l.seed)
		return &delivery.Transport{
			Policy: policy, Base: l.base, AttemptTimeout: l.attemptTimeout,
			Jitter: func(d time.Duration) time.Duration { return l.grid.rounded(full(d)) },
		}
	}}, nil
}

// deliveryPolicy returns nil for the default policy.
func deliveryPolicy(s scenario.Setting) (*delivery.Policy, error) {
	switch s.Policy {
	case "":
		return nil, nil
	case scenario.AWSManaged:
		return delivery.AWSManaged(), nil
	case scenario.CustomerManaged:
		return delivery.CustomerManaged(), nil
	}
	text, err := regularfile.Read(s.Policy)
	if err != nil {
		return nil, err
	}
	policy, err := delivery.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Policy, err)
	}
	return policy, nil
}
