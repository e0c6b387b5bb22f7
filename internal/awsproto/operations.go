package awsproto

import (
	"io"
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

// LongPollsByForm is LongPolls for a request of the AWS query protocol that has its
// parameters in the body. It reads no more than a form of such an operation needs.
func LongPollsByForm(h http.Header, body io.Reader) bool {
	if mediaType(h) != "application/x-www-form-urlencoded" {
		return false
	}
	form, _ := io.ReadAll(io.LimitReader(body, maxForm)) // what could be read may have the Action
	values, _ := url.ParseQuery(string(form))
	return values.Get("Action") == "ReceiveMessage"
}

// maxForm is how many bytes of a form are searched for the Action.
const maxForm = 64 << 10

// hasQuery reports whether the query has the parameter. It parses the query only if
// the name occurs in it.
func hasQuery(u *url.URL, name string) bool {
	return strings.Contains(u.RawQuery, name) && u.Query().Has(name)
}
