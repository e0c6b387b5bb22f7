package services

import (
	"net/http"
	"strings"
	"time"

	"example.com/awsretry"
)

// Google is the APIs of Google ("Errors" of the Cloud API Design Guide, AIP-193,
// google.rpc.RetryInfo and "Resolve errors" of Google Workspace, 2025-07). A
// RetryInfo says how long to wait. A 403 whose reason is a rate limit is
// throttling; one whose reason is the quota of a day is not.
var Google = Service{
	Policy:     googlePolicy,
	RetryAfter: googleDelay,
	Peek:       errorsOnly,
}

type googleAnswer struct {
	Error struct {
		Errors  []struct{ Reason string }
		Details []struct {
			Type       string `json:"@type"`
			Reason     string
			RetryDelay string
		}
	}
}

// googleError returns the error in a body. A stream of JSON is a list of them.
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

func googleDelay(_ *http.Response, body []byte) (time.Duration, bool) {
	for _, d := range googleError(body).Error.Details {
		if strings.HasSuffix(d.Type, "/google.rpc.RetryInfo") {
			wait, err := time.ParseDuration(d.RetryDelay)
			return wait, err == nil && wait >= 0
		}
	}
	return 0, false
}
