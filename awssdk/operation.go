package awssdk

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"sync/atomic"

	"example.com/awsretry"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
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

// An operation is what the middleware stack of a call says about it. It is zero
// if Apply did not configure the client.
type operation struct {
	name     string        // of the stack
	client   *atomic.Int64 // see clientOf
	endpoint string        // see baseEndpoint
}

// An attempt is what the calls within it, such as those for credentials, find in
// their context.
type attempt struct {
	call          *call
	stack         *operation
	service, name string
}

type attemptKey struct{}

// outerAttempt returns the attempt that the call of ctx is within, or nil.
func outerAttempt(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// names returns the SDK's names of the service and the operation. They are "" if
// the client has none. Its context then still has those of the attempt that
// it is within.
func (o *operation) names(ctx context.Context) (service, name string) {
	service, name = awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx)
	_, kept := middleware.GetStackValue(ctx, callKey{}).(*call) // by the handleAttempt of the outer call
	outer := outerAttempt(ctx)
	kept = kept && outer != nil && outer.service == service && outer.name == name
	if kept || o.name != "" && o.name != name {
		return "", ""
	}
	return service, name
}

// begin begins a call, or an attempt of a call that is not known if detached is
// set. It also returns the request that describes it. account is "" if it is not
// known.
func (r *Retryer) begin(ctx context.Context, o *operation, account string, sent *http.Request, detached bool) (
	decisions, *http.Request, error,
) {
	service, name := o.names(ctx)
	t := r.transport
	switch {
	case service == "":
		t, ctx = r.unpaced, awsretry.WithPartition(ctx, noService)
	case outerAttempt(ctx) != nil: // the WithPartition of ctx is for the outer call
		ctx = awsretry.WithPartition(ctx, r.partition(ctx, o.endpoint, account))
	default:
		ctx = context.WithValue(ctx, partitionKey{}, r.partition(ctx, o.endpoint, account))
	}
	described := describe(ctx, service, name, sent)
	loop, err := newLoop(t, described, detached)
	return loop, described, err
}

// describe returns a request that describes an operation to the library, which
// knows the operations that have their own rules by X-Amz-Target. Protocols
// other than AWS JSON do not send that header.
func describe(ctx context.Context, service, operation string, sent *http.Request) *http.Request {
	req := (&http.Request{Method: http.MethodPost, URL: new(url.URL), Header: make(http.Header)}).WithContext(ctx)
	if sent != nil {
		req.Method, req.Header = cmp.Or(sent.Method, http.MethodGet), sent.Header.Clone()
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
