package services

import (
	"net/http"
	"strings"

	"example.com/awsretry"
)

// Slack is the Web API of Slack ("Rate limits" and "Using the Slack Web API",
// 2025-06). A 200 may contain an error. Each method of each workspace has its own
// limit and its own partition, whose name contains a hash of the workspace's token.
var Slack = Service{
	Policy:    slackPolicy,
	Partition: slackPartition,
	Peek:      slackPeek,
}

// slackPeek reads a response that begins with "ok":false.
func slackPeek(resp *http.Response, body []byte) (more bool) {
	return strings.Contains(path(resp), "/api/") && unfinished(body, `{"ok":false`)
}

func slackPolicy(a *awsretry.Attempt) awsretry.Class {
	if a.Response == nil || a.Response.StatusCode != http.StatusOK {
		return awsretry.DefaultPolicy(a)
	}
	answer := struct {
		OK    *bool
		Error string
	}{}
	if decode(a.Body, &answer); answer.OK == nil || *answer.OK {
		return awsretry.DefaultPolicy(a)
	}
	switch answer.Error {
	case "ratelimited", "rate_limited":
		return awsretry.Throttled
	case "internal_error", "fatal_error", "service_unavailable", "request_timeout":
		return awsretry.Transient
	}
	return awsretry.Permanent
}

func slackPartition(req *http.Request) string { return host(req) + req.URL.Path + token(req) }
