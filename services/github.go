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
// or it has a Retry-After. Any other 403 means that a permission is missing.
//
// After a call exceeds a primary limit, its retry waits for the reset, up to an hour.
// Set a deadline in the context if that is too long. After a call exceeds a secondary
// limit, its retry waits for the Retry-After or, without one, for a minute. If the
// same host and token exceed a secondary limit again within half an hour, the wait is
// at least two minutes, then four, and so on. So they exceed it at most five times in
// any half hour, however many callers there are, and a call's six attempts outlast
// that.
//
// The limits of core, search, code search and GraphQL are separate, and so are
// those of each token. The name of a partition contains a hash of the Authorization
// header.
var GitHub = Service{
	Policy:          githubPolicy,
	MaxAttempts:     6,
	RetryAfter:      githubDelay,
	MaxRetryAfter:   time.Hour + time.Minute,
	ShareRetryAfter: true,
	Limits:          awsretry.ReadLimits,
	Partition:       githubPartition,
	Peek:            wholeJSON(githubPeek),
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

// namesLimit reports whether a message names an exceeded limit.
func namesLimit(message string) bool {
	message = strings.ToLower(message)
	return strings.Contains(message, "rate limit") || strings.Contains(message, "abuse detection")
}

func namesSecondary(message string) bool {
	return strings.Contains(strings.ToLower(message), "secondary rate limit")
}

func nothingRemains(resp *http.Response) bool { return resp.Header.Get("X-Ratelimit-Remaining") == "0" }

// isGraphQL reports whether a response is to a GraphQL request, which may be
// throttled with a 200.
func isGraphQL(resp *http.Response) bool {
	return resp.Request != nil && resp.Request.Method == http.MethodPost &&
		(path(resp) == "/graphql" || path(resp) == "/api/graphql") // the latter in GitHub Enterprise Server
}

// githubPeek reads a GraphQL response that begins with an error. A response with
// data begins with the data.
func githubPeek(resp *http.Response, body []byte) (more bool) {
	return isGraphQL(resp) &&
		unfinished(body, `{"errors":`, `{"data":null`, `{"message":`, `{"documentation_url":`)
}

// githubDelay returns the first that applies of the documented delays: Retry-After,
// the time until the reset of an exhausted limit, a minute.
func githubDelay(resp *http.Response, body []byte) (time.Duration, bool) {
	if resp.Header.Get("Retry-After") != "" || !githubLimited(resp, body) {
		return 0, false
	}
	if wait, ok := untilReset(resp); ok {
		return wait, true
	}
	return time.Minute, true
}

// lengthenSecondary returns next with longer delays after repeated secondary limits.
func lengthenSecondary(next retryAfter) retryAfter {
	var trips trips
	return func(resp *http.Response, body []byte) (time.Duration, bool) {
		wait, ok := next(resp, body)
		if resp.Request == nil || nothingRemains(resp) || !githubLimited(resp, body) {
			return wait, ok
		}
		if !ok {
			wait = awsproto.RetryAfter(resp.Header, time.Now())
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
