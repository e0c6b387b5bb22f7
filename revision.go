package awsretry

import (
	"net/http"
	"strings"
)

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
