package services

import (
	"net/http"
	"strings"
	"time"

	"example.com/awsretry"
)

// Google is the APIs of Google ("Errors" of the Cloud API Design Guide, AIP-193,
// google.rpc.QuotaFailure and RetryInfo, and "Resolve errors" of Google Workspace,
// 2025-07). The delay comes from a RetryInfo. A 403 whose reason is a rate limit is
// throttling. A 403 or 429 for a daily quota is permanent, even if a RetryInfo asks
// for a short delay.
var Google = Service{
	Policy:     googlePolicy,
	RetryAfter: googleDelay,
	Peek:       awsretry.WholeDocuments, // a stream may be JSON without a length,
	harmless:   posts(":generateContent", ":streamGenerateContent", ":countTokens", ":embedContent", ":batchEmbedContents"),
}

type googleAnswer struct {
	Error struct {
		Errors  []struct{ Reason string }
		Details []struct {
			Type       string `json:"@type"`
			Reason     string
			RetryDelay string
			Metadata   map[string]string // of an ErrorInfo
			Violations []struct{ QuotaMetric, QuotaID string }
		}
	}
}

// googleError returns the error in a body, which is a list for a streaming method.
func googleError(body []byte) (answer googleAnswer) {
	var list []googleAnswer
	if decode(body, &list); len(list) > 0 {
		return list[0]
	}
	decode(body, &answer)
	return answer
}

func googlePolicy(a *awsretry.Attempt) awsretry.Class {
	class := awsretry.DefaultPolicy(a)
	if a.Response == nil || a.Response.StatusCode != http.StatusForbidden && class != awsretry.Throttled {
		return class
	}
	answer := googleError(a.Body).Error
	var reasons []string
	for _, e := range answer.Errors {
		reasons = append(reasons, e.Reason)
	}
	for _, d := range answer.Details {
		reasons = append(reasons, d.Reason)
		daily := perDay(d.Metadata["quota_limit"]) || strings.HasPrefix(d.Metadata["quota_unit"], "1/d/")
		for _, v := range d.Violations {
			daily = daily || perDay(v.QuotaMetric) || perDay(v.QuotaID)
		}
		if daily {
			return awsretry.Permanent
		}
	}
	for _, reason := range reasons {
		switch reason {
		case "rateLimitExceeded", "userRateLimitExceeded", "RATE_LIMIT_EXCEEDED", "concurrentLimitExceeded":
			return awsretry.Throttled
		case "dailyLimitExceeded", "dailyLimitExceededUnreg", "quotaExceeded", "RESOURCE_QUOTA_EXCEEDED",
			"BILLING_DISABLED", "accessNotConfigured":
			return awsretry.Permanent
		}
	}
	return class
}

// perDay reports whether a quota's name is that of a daily quota.
func perDay(quota string) bool {
	quota = strings.ReplaceAll(strings.ToLower(quota), "_", "")
	return strings.Contains(quota, "perday") || strings.Contains(quota, "daily")
}

func googleDelay(_ *http.Response, body []byte) (time.Duration, bool) {
	for _, d := range googleError(body).Error.Details {
		if strings.HasSuffix(d.Type, "/google.rpc.RetryInfo") {
			wait, err := time.ParseDuration(d.RetryDelay)
			return wait, err == nil && wait >= 0
		}
	}
	return 0, false
}
