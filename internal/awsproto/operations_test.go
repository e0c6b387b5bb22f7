package awsproto

import (
	"net/http"
	"testing"
)

// newRequest returns a request with one header, or with none where its value is
// empty.
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

func TestMayHideError(t *testing.T) {
	for _, tt := range []struct {
		name, method, query, copySource string
		status                          int
		want                            bool
	}{
		{"CopyObject", "PUT", "", "bucket/key", 200, true},
		{"UploadPart", "PUT", "partNumber=1&uploadId=5", "", 200, false},
		{"CompleteMultipartUpload", "POST", "uploadId=5", "", 200, true},
		{"a parameter that looks like it", "POST", "x=uploadId", "", 200, false},
		{"GET", "GET", "uploadId=5", "bucket/key", 200, false},
		{"no content", "POST", "uploadId=5", "", 204, false},
	} {
		req := newRequest(t, tt.method, "https://h/key?"+tt.query, "X-Amz-Copy-Source", tt.copySource)
		if got := MayHideError(&http.Response{StatusCode: tt.status}, req); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
	if MayHideError(&http.Response{StatusCode: 200}, &http.Request{Method: "POST"}) {
		t.Error("true of a request without a URL")
	}
}

// A body arrives in pieces, and the verdict must not depend on how it is cut.
func TestHiddenError(t *testing.T) {
	for body, want := range map[string]bool{ // whether it can be excluded
		"":                               false,
		" \r\n":                          false,
		"<Err":                           false,
		"<?xml version='1.0'?>\n<Error>": false,
		"\xef\xbb\xbf<?xml version='1.0'?><!-- a --><Error": false,
		"<!-- <CopyObjectResult> ":                          false,
		"<CopyObjectResult>":                                true,
		"<?xml version='1.0'?><CopyObjectResult>":           true,
		"<!-- --> <Errata>":                                 true,
		"Error":                                             true,
		"<Error ":                                           false,
	} {
		if got := new(HiddenError).Impossible([]byte(body)); got != want {
			t.Errorf("%q at once: %v, want %v", body, got, want)
		}
		h, got := new(HiddenError), false
		for n := range len(body) + 1 {
			got = h.Impossible([]byte(body[:n]))
			if got && !want {
				t.Errorf("%q, %d bytes of it: excluded", body, n)
			}
		}
		if got != want {
			t.Errorf("%q byte by byte: %v, want %v", body, got, want)
		}
	}
}
