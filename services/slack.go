package services

import (
	"net/http"
	"regexp"
	"strings"

	"example.com/awsretry"
)

// Slack is the Web API of Slack ("Rate limits" and "Using the Slack Web API",
// 2025-06). A 200 may contain an error. Each method of each workspace has its own
// limit and its own partition, whose name contains a hash of the workspace's token.
// A webhook has its secret in the path, so all webhooks have the partition of their
// host.
var Slack = Service{
	Policy:    slackPolicy,
	Partition: slackPartition,
	Peek:      wholeJSON(slackPeek),
	harmless:  slackReads,
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

// slackReads reports whether a request calls a method that only reads. SDKs call all
// methods with POST.
func slackReads(req *http.Request) bool {
	return slackMethod.MatchString(req.URL.Path) && slackReading(req)
}

var slackReading = posts(".history", ".info", ".list", ".members", ".replies", ".test")

// slackMethod matches /api/ and the name of a method at the beginning of a path.
var slackMethod = regexp.MustCompile(`^/api/[A-Za-z]+(\.[A-Za-z0-9]+)+`)

func slackPartition(req *http.Request) string {
	return host(req) + slackMethod.FindString(req.URL.Path) + token(req)
}
