package awsproto

import (
	"bytes"
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

// MayHideError reports whether the body of a 200 response to the request may be
// an error document. Amazon S3 sends such documents for CopyObject,
// UploadPartCopy and CompleteMultipartUpload, whose status it has to send
// before it knows the outcome.
func MayHideError(resp *http.Response, req *http.Request) bool {
	// Every successful request comes here, so the first tests are inlined.
	return resp.StatusCode == http.StatusOK && (req.Method == http.MethodPut || req.Method == http.MethodPost) &&
		mayHideError(req)
}

func mayHideError(req *http.Request) bool {
	if req.Method == http.MethodPut {
		return len(req.Header["X-Amz-Copy-Source"]) > 0
	}
	return req.URL != nil && hasQuery(req.URL, "uploadId")
}

// A HiddenError looks for the start of an S3 error document in a body that is
// still arriving.
type HiddenError struct{ skipped int } // bytes before the root element

const (
	byteOrderMark = "\xef\xbb\xbf"
	comment       = "<!--"
	errorRoot     = "<Error"
)

// Impossible reports whether the body is not an S3 error document: something
// other than <Error follows the white space, the XML declaration and the
// comments. Each call gets the same body from its first byte, and more of it.
func (h *HiddenError) Impossible(body []byte) bool {
	for {
		rest := body[h.skipped:]
		var end string
		switch {
		case len(rest) > 0 && strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			h.skipped++
			continue
		case bytes.HasPrefix(rest, []byte(byteOrderMark)):
			h.skipped += len(byteOrderMark)
			continue
		case bytes.HasPrefix(rest, []byte("<?")):
			end = "?>"
		case bytes.HasPrefix(rest, []byte(comment)):
			end = "-->"
		default:
			return !mayBegin(rest, errorRoot) && !mayBegin(rest, comment) && !mayBegin(rest, byteOrderMark)
		}
		i := bytes.Index(rest, []byte(end))
		if i < 0 {
			return false
		}
		h.skipped += i + len(end)
	}
}

// mayBegin reports whether text, or as much of it as has arrived, is at the
// start of body.
func mayBegin(body []byte, text string) bool {
	n := min(len(body), len(text))
	return string(body[:n]) == text[:n]
}

// hasQuery reports whether the query has the parameter. It parses the query
// only where the name occurs in it.
func hasQuery(u *url.URL, name string) bool {
	return strings.Contains(u.RawQuery, name) && u.Query().Has(name)
}
