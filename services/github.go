package services

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"example.com/awsretry"
)

// GitHub is the REST and GraphQL API of GitHub ("Rate limits for the REST API" and
// "Best practices for using the REST API", 2025-06). A primary limit, whose
// remaining number is 0, is waited for, up to an hour: a context with a deadline
// says how long is too long. After a secondary limit that has no Retry-After it
// waits for a minute. Search, code search and GraphQL have limits, and partitions,
// of their own.
var GitHub = Service{
	Policy:        githubPolicy,
	RetryAfter:    githubDelay,
	MaxRetryAfter: time.Hour + time.Minute,
	Limits:        awsretry.ReadLimits,
	Partition:     githubPartition,
	Peek:          errorsOnly,
}

func githubPolicy(a *awsretry.Attempt) awsretry.Class {
	if a.Response != nil && githubLimited(a.Response, a.Body) {
		return awsretry.Throttled
	}
	return awsretry.DefaultPolicy(a)
}

// githubLimited reports whether a limit is the reason of a 403 or 429. A 403 may
// also be a missing permission.
func githubLimited(resp *http.Response, body []byte) bool {
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusForbidden:
		return resp.Header.Get("Retry-After") != "" || resp.Header.Get("X-Ratelimit-Remaining") == "0" ||
			secondary(body)
	}
	return false
}

func secondary(body []byte) bool {
	body = bytes.ToLower(body)
	return bytes.Contains(body, []byte("secondary rate limit")) || bytes.Contains(body, []byte("abuse detection"))
}

func githubDelay(resp *http.Response, body []byte) (time.Duration, bool) {
	if resp.Header.Get("Retry-After") != "" || !githubLimited(resp, body) {
		return 0, false
	}
	if resp.Header.Get("X-Ratelimit-Remaining") == "0" {
		return untilReset(resp)
	}
	return time.Minute, true
}

func githubPartition(req *http.Request) string {
	path := strings.TrimPrefix(req.URL.Path, "/api/v3") // GitHub Enterprise Server
	switch {
	case path == "/graphql", path == "/api/graphql":
		return host(req) + " graphql"
	case path == "/search/code":
		return host(req) + " code_search"
	case strings.HasPrefix(path, "/search/"):
		return host(req) + " search"
	}
	return host(req) + " core"
}
