package awsproto

import (
	"net/http"
	"net/url"
	"strings"
)

// DynamoDB reports whether the request is for Amazon DynamoDB or DynamoDB
// Streams, for which the 2026 revision has its own defaults.
func DynamoDB(req *http.Request) bool {
	target := req.Header.Get("X-Amz-Target")
	return strings.HasPrefix(target, "DynamoDB_20120810.") || strings.HasPrefix(target, "DynamoDBStreams_20120810.")
}

// LongPolls reports whether the request is for an AWS operation that waits for
// work.
func LongPolls(req *http.Request) bool {
	switch req.Header.Get("X-Amz-Target") {
	case "AmazonSQS.ReceiveMessage", "AWSStepFunctions.GetActivityTask",
		"SimpleWorkflowService.PollForActivityTask", "SimpleWorkflowService.PollForDecisionTask":
		return true
	}
	return req.URL != nil && hasQuery(req.URL, "Action") && req.URL.Query().Get("Action") == "ReceiveMessage"
}

// hasQuery reports whether the query has the parameter. It parses the query only if
// the name occurs in it.
func hasQuery(u *url.URL, name string) bool {
	return strings.Contains(u.RawQuery, name) && u.Query().Has(name)
}
