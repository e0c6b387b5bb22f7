package awsretry

import (
	"net/http"
	"strings"
	"time"
)

// maxAttempts is how often the request may be sent.
func (c *call) maxAttempts() int {
	if c.dynamoDB != nil && dynamoDB(c.req) {
		return c.dynamoDB.attempts
	}
	return c.attempts
}

// nextPause is the backoff's.
func (c *call) nextPause(a *Attempt) time.Duration {
	backoff := c.backoff
	if c.dynamoDB != nil && dynamoDB(c.req) {
		backoff = c.dynamoDB.backoff
	}
	return max(backoff.Delay(a.Number-1, a.Class, c.lastDelay), 0)
}

// delay is the pause before the retry of a. It is short where it is no longer than MaxRetryAfter allows.
func (c *call) delay(a *Attempt) (d time.Duration, short bool) {
	d = c.nextPause(a)
	if a.Response == nil {
		return d, true
	}
	if c.revision == Revision2026 {
		d = amzRetryAfter(a.Response.Header, d)
	}
	if c.maxRetryAfter < 0 || len(a.Response.Header["Retry-After"]) == 0 {
		return d, true
	}
	asked := retryAfter(a.Response.Header, time.Now())
	if asked > c.maxRetryAfter {
		return 0, false
	}
	if status := a.Response.StatusCode; c.mode == Legacy && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) {
		return addSaturating(d, asked), true
	}
	return max(d, asked), true
}

// longPolls reports whether the caller repeats the request in a loop of its own.
func (c *call) longPolls() bool {
	switch {
	case c.longPoll != nil:
		return c.longPoll(c.req)
	case c.revision == Revision2026:
		return awsLongPoll(c.req)
	}
	return false
}

// dynamoDB reports whether the request is for Amazon DynamoDB or DynamoDB Streams.
func dynamoDB(req *http.Request) bool {
	target := req.Header.Get("X-Amz-Target")
	return strings.HasPrefix(target, "DynamoDB_20120810.") || strings.HasPrefix(target, "DynamoDBStreams_20120810.")
}

// awsLongPoll reports whether the request is one of the AWS operations that wait for work.
func awsLongPoll(req *http.Request) bool {
	switch req.Header.Get("X-Amz-Target") {
	case "AmazonSQS.ReceiveMessage", "AWSStepFunctions.GetActivityTask",
		"SimpleWorkflowService.PollForActivityTask", "SimpleWorkflowService.PollForDecisionTask":
		return true
	}
	return req.URL != nil && hasQuery(req.URL, "Action") && req.URL.Query().Get("Action") == "ReceiveMessage"
}
