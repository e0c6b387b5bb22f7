package services

import (
	"net/http"
	"strings"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/awsproto"
)

// GitHub is the REST and GraphQL API of GitHub ("Rate limits for the REST API",
// "Rate limits and query limits for the GraphQL API" and "Troubleshooting the
// REST API", 2026-03). A 403 is throttling only if its message names a rate limit
// or it has a Retry-After; otherwise a permission is missing.
//
// After a primary limit it waits for the reset, up to an hour: give the context a
// deadline if that is too long. After a secondary limit that sends no Retry-After
// it waits for a minute. Each further secondary limit of the same host and token
// within half an hour doubles that minute, so that there are at most five in any
// half hour, however many callers there are, and a call's six attempts outlast
// them.
//
// The limits of core, search, code search and GraphQL are separate, and so are
// those of each token. Partitions have a hash of the Authorization header.
var GitHub = Service{
	Policy:          githubPolicy,
	MaxAttempts:     6,
	RetryAfter:      githubDelay,
	MaxRetryAfter:   time.Hour + time.Minute,
	ShareRetryAfter: true,
	Limits:          awsretry.ReadLimits,
	Partition:       githubPartition,
	Peek:            githubPeek,
	lengthen:        lengthenSecondary,
}

type githubAnswer struct {
	Message string
	Errors  []struct{ Type, Message string } // of GraphQL
}

func githubPolicy(a *awsretry.Attempt) awsretry.Class {
	if a.Response != nil && githubLimited(a.Response, a.Body) {
		return awsretry.Throttled
	}
	return awsretry.DefaultPolicy(a)
}

// githubLimited reports whether a response refuses a request because of a limit.
func githubLimited(resp *http.Response, body []byte) bool {
	var answer githubAnswer
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusForbidden:
		if decode(body, &answer); answer.Message == "" && namesLimit(string(body)) {
			return true
		}
		return resp.Header.Get("Retry-After") != "" || namesLimit(answer.Message) ||
			answer.Message == "" && nothingRemains(resp)
	case http.StatusOK:
		if !isGraphQL(resp) {
			return false
		}
		decode(body, &answer)
		limited := namesLimit(answer.Message)
		for _, e := range answer.Errors {
			limited = limited || e.Type == "RATE_LIMITED" || e.Type == "RATE_LIMIT" || namesSecondary(e.Message)
		}
		return limited
	}
	return false
}

// namesLimit reports whether a message says that a limit was exceeded.
func namesLimit(message string) bool {
	message = strings.ToLower(message)
	return strings.Contains(message, "rate limit") || strings.Contains(message, "abuse detection")
}

func namesSecondary(message string) bool {
	return strings.Contains(strings.ToLower(message), "secondary rate limit")
}

func nothingRemains(resp *http.Response) bool { return resp.Header.Get("X-Ratelimit-Remaining") == "0" }

// isGraphQL reports whether a response is that of a GraphQL request, whose
// limits may be in a 200.
func isGraphQL(resp *http.Response) bool {
	return resp.Request != nil && resp.Request.Method == http.MethodPost &&
		(path(resp) == "/graphql" || path(resp) == "/api/graphql") // the latter in GitHub Enterprise Server
}

// githubPeek reads a GraphQL response that begins with an error. One with data
// begins with the data.
func githubPeek(resp *http.Response, body []byte) (more bool) {
	return isGraphQL(resp) &&
		unfinished(body, `{"errors":`, `{"data":null`, `{"message":`, `{"documentation_url":`)
}

// githubDelay returns the first delay of the documented ones: Retry-After, the
// reset of a limit of which nothing remains, a minute.
func githubDelay(resp *http.Response, body []byte) (time.Duration, bool) {
	if resp.Header.Get("Retry-After") != "" || !githubLimited(resp, body) {
		return 0, false
	}
	if wait, ok := untilReset(resp); ok {
		return wait, true
	}
	return time.Minute, true
}

// lengthenSecondary returns next with longer delays where secondary limits follow
// each other.
func lengthenSecondary(next retryAfter) retryAfter {
	var trips trips
	return func(resp *http.Response, body []byte) (time.Duration, bool) {
		wait, ok := next(resp, body)
		if resp.Request == nil || nothingRemains(resp) || !githubLimited(resp, body) {
			return wait, ok
		}
		if !ok {
			wait, _ = awsproto.RetryAfter(resp.Header, time.Now())
		}
		return trips.wait(host(resp.Request)+token(resp.Request), wait, time.Now()), true
	}
}

func githubPartition(req *http.Request) string {
	resource := " core"
	path := strings.TrimPrefix(req.URL.Path, "/api/v3") // GitHub Enterprise Server
	switch {
	case path == "/graphql", path == "/api/graphql":
		resource = " graphql"
	case path == "/search/code":
		resource = " code_search"
	case strings.HasPrefix(path, "/search/"):
		resource = " search"
	}
	return host(req) + resource + token(req)
}
