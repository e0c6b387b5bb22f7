package simulate

import (
	"example.com/awsretry"
	"example.com/awsretry/simulate/scenario"
)

// A quota is what the retries of a setting cost.
type quota awsretry.QuotaConfig

// quotas are the retry token buckets with a name.
var quotas = map[string]quota{
	"": {}, // the revision's

	// AWS SDK for Kotlin, "Retries".
	scenario.QuotaDocuments: {RetryCost: 5, TimeoutCost: 10, ThrottlingCost: 10},

	// The AWS SDKs for Go and Python, whose retries after throttling are
	// cheaper than the documents say.
	scenario.QuotaSDK: {RetryCost: 5, TimeoutCost: 10, ThrottlingCost: 5},

	// The AWS SDKs' rules of 2026.
	scenario.Quota2026: {RetryCost: 14, TimeoutCost: 14, ThrottlingCost: 5},

	scenario.QuotaNone: {Capacity: -1},
}

// with returns the bucket with a capacity, 0 for its own.
func (q quota) with(capacity int) awsretry.QuotaConfig {
	if capacity > 0 {
		q.Capacity = capacity
	}
	return awsretry.QuotaConfig(q)
}
