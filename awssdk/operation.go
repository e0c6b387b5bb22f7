package awssdk

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
)

// targets has the prefixes of the X-Amz-Target header of some services, by the
// SDK's name of the service.
var targets = map[string]string{
	"DynamoDB":         "DynamoDB_20120810.",
	"DynamoDB Streams": "DynamoDBStreams_20120810.",
	"SQS":              "AmazonSQS.",
	"SFN":              "AWSStepFunctions.",
	"SWF":              "SimpleWorkflowService.",
}

// serviceAndRegion is the default of Config.Partition.
func serviceAndRegion(ctx context.Context) string {
	return strings.TrimSpace(awsmiddleware.GetServiceID(ctx) + " " + awsmiddleware.GetRegion(ctx))
}

// describeCall returns a request that describes the call of ctx.
func describeCall(ctx context.Context, sent *http.Request) *http.Request {
	return describe(ctx, awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx), sent)
}

// describe returns a request that describes an operation to the library, which
// knows the operations that have their own rules by X-Amz-Target. Protocols
// other than AWS JSON do not send that header.
func describe(ctx context.Context, service, operation string, sent *http.Request) *http.Request {
	req := (&http.Request{Method: http.MethodPost, URL: new(url.URL), Header: make(http.Header)}).WithContext(ctx)
	if sent != nil {
		req.Method, req.Header = cmp.Or(sent.Method, req.Method), sent.Header.Clone()
		if req.Header == nil {
			req.Header = make(http.Header)
		}
		if sent.URL != nil {
			*req.URL = *sent.URL
		}
	}
	if target := targets[service]; target != "" && req.Header.Get("X-Amz-Target") == "" {
		req.Header.Set("X-Amz-Target", target+operation)
	}
	return req
}
