package services

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"example.com/awsretry"
)

// Shopify is the Admin API of Shopify ("Shopify API limits", 2025-07). The GraphQL
// API says THROTTLED in a 200, with the points that a query costs and how fast
// they come back.
var Shopify = Service{
	Policy:     shopifyPolicy,
	RetryAfter: shopifyDelay,
	Limits:     awsretry.ReadLimits,
	Peek:       shopifyPeek,
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

// shopifyPeek reads an answer that begins with errors, which are short.
func shopifyPeek(resp *http.Response, body []byte) (more bool) {
	if !strings.HasSuffix(path(resp), "/graphql.json") {
		return false
	}
	const begins = `{"errors":`
	start := bytes.TrimLeft(body, " \t\r\n")
	if len(start) < len(begins) {
		return strings.HasPrefix(begins, string(start))
	}
	return strings.HasPrefix(string(start), begins) && !json.Valid(start)
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
