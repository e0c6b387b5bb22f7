package awsproto

import (
	"net/http"
	"strings"
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
	const form = "application/x-www-form-urlencoded"
	for _, tt := range []struct {
		mediaType, body string
		want            bool
	}{
		{form, "Action=ReceiveMessage&Version=2012-11-05", true},
		{"Application/X-WWW-Form-URLencoded; charset=utf-8", "Version=2012-11-05&Action=Receive%4Dessage", true},
		{form, "%zz&Action=ReceiveMessage", true},
		{form, "Action=SendMessage&MessageBody=Action=ReceiveMessage", false},
		{form, "Action=SendMessage&Action=ReceiveMessage", false},
		{form, "", false},
		{form, "a=" + strings.Repeat("a", maxForm) + "&Action=ReceiveMessage", false},
		{"text/plain", "Action=ReceiveMessage", false},
		{"", "Action=ReceiveMessage", false},
	} {
		body := strings.NewReader(tt.body)
		got := LongPollsByForm(http.Header{"Content-Type": {tt.mediaType}}, body)
		if got != tt.want || body.Size()-int64(body.Len()) > maxForm {
			t.Errorf("%s, %.60s: %v after %d bytes", tt.mediaType, tt.body, got, body.Size()-int64(body.Len()))
		}
	}
	if LongPolls(&http.Request{}) {
		t.Error("true of an empty request")
	}
}
