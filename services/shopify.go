package services

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"example.com/awsretry"
)

// Shopify is the Admin API of Shopify ("Shopify API limits", 2025-07). The GraphQL
// API throttles with a 200 whose error is THROTTLED. The delay is computed from the
// response, which has the cost of the query in points, the points that are left and
// the rate at which points come back.
var Shopify = Service{
	Policy:     shopifyPolicy,
	RetryAfter: shopifyDelay,
	Limits:     awsretry.ReadLimits,
	Peek:       wholeJSON(shopifyPeek),
}

type shopifyAnswer struct {
	Errors []struct {
		Extensions struct{ Code string }
	}
	Extensions struct {
		Cost struct {
			RequestedQueryCost float64
			ThrottleStatus     struct{ CurrentlyAvailable, RestoreRate float64 }
		}
	}
}

// shopifyPeek reads a GraphQL response that begins with errors.
func shopifyPeek(resp *http.Response, body []byte) (more bool) {
	return strings.HasSuffix(path(resp), "/graphql.json") && unfinished(body, `{"errors":`)
}

func shopifyThrottled(body []byte) (answer shopifyAnswer, throttled bool) {
	if !bytes.Contains(body, []byte("THROTTLED")) {
		return answer, false
	}
	decode(body, &answer)
	for _, e := range answer.Errors {
		throttled = throttled || e.Extensions.Code == "THROTTLED"
	}
	return answer, throttled
}

func shopifyPolicy(a *awsretry.Attempt) awsretry.Class {
	if a.Response != nil && a.Response.StatusCode == http.StatusOK {
		if _, throttled := shopifyThrottled(a.Body); throttled {
			return awsretry.Throttled
		}
	}
	return awsretry.DefaultPolicy(a)
}

func shopifyDelay(_ *http.Response, body []byte) (time.Duration, bool) {
	answer, throttled := shopifyThrottled(body)
	cost := answer.Extensions.Cost
	missing := cost.RequestedQueryCost - cost.ThrottleStatus.CurrentlyAvailable
	if !throttled || missing <= 0 || cost.ThrottleStatus.RestoreRate <= 0 {
		return 0, false
	}
	seconds := min(missing/cost.ThrottleStatus.RestoreRate, 3600)
	return time.Duration(seconds * float64(time.Second)), true
}
