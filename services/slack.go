package services

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"

	"example.com/awsretry"
)

// Slack is the Web API of Slack ("Rate limits" and "Using the Slack Web API",
// 2025-06). It says failure inside a 200. Each method of each workspace has a
// limit, and a partition, of its own; the token stands for the workspace, as a
// hash.
var Slack = Service{
	Policy:    slackPolicy,
	Partition: slackPartition,
	Peek:      slackPeek,
}

// slackPeek reads an answer that begins with "ok":false, which is short.
func slackPeek(resp *http.Response, body []byte) (more bool) {
	if !strings.Contains(path(resp), "/api/") {
		return false
	}
	const begins = `{"ok":false`
	start := bytes.Join(bytes.Fields(body[:min(len(body), 64)]), nil)
	if len(start) < len(begins) {
		return strings.HasPrefix(begins, string(start))
	}
	return strings.HasPrefix(string(start), begins) && !json.Valid(body)
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

func slackPartition(req *http.Request) string {
	name := host(req) + req.URL.Path
	if token := req.Header.Get("Authorization"); token != "" {
		hash := sha256.Sum256([]byte(token))
		name += " " + hex.EncodeToString(hash[:4])
	}
	return name
}
