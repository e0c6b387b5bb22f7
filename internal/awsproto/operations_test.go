package awsproto

import (
	"net/http"
	"testing"
)

// newRequest returns a request with one header, or with none if its value is empty.
func newRequest(t *testing.T, method, url, header, value string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if value != "" {
		req.Header.Set(header, value)
	}
	return req
}

func TestOperations(t *testing.T) {
	for target, want := range map[string]struct{ dynamoDB, longPolls bool }{
		"":                                            {},
		"DynamoDB_20120810.GetItem":                   {dynamoDB: true},
		"DynamoDBStreams_20120810.GetRecords":         {dynamoDB: true},
		"AmazonSQS.ReceiveMessage":                    {longPolls: true},
		"AWSStepFunctions.GetActivityTask":            {longPolls: true},
		"SimpleWorkflowService.PollForActivityTask":   {longPolls: true},
		"SimpleWorkflowService.PollForDecisionTask":   {longPolls: true},
		"SimpleWorkflowService.PollForDecisionTasks2": {},
	} {
		req := newRequest(t, "POST", "https://h/", "X-Amz-Target", target)
		if DynamoDB(req) != want.dynamoDB || LongPolls(req) != want.longPolls {
			t.Errorf("%q: DynamoDB %v, LongPolls %v", target, DynamoDB(req), LongPolls(req))
		}
	}
	for query, want := range map[string]bool{
		"Action=ReceiveMessage&Version=2012-11-05": true, "Action=SendMessage": false,
		"SubAction=ReceiveMessage": false, "x=Action": false,
	} {
		if got := LongPolls(newRequest(t, "GET", "https://h/?"+query, "", "")); got != want {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	if LongPolls(&http.Request{}) {
		t.Error("true of an empty request")
	}
}
