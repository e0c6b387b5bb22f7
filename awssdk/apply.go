package awssdk

import (
	"context"
	"fmt"
	"math"
	"time"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go/middleware"
)

// Apply makes the clients that are made from cfg use r. It sets cfg.Retryer,
// and adds middlewares to cfg.APIOptions, so that r knows which attempts belong
// to one call. It clears cfg.RetryMaxAttempts, which the SDK's config package
// reads from the environment and which would take precedence over r.
//
// For a client that is made from options, use the two fields:
//
//	var cfg aws.Config
//	retryer.Apply(&cfg)
//	client := sqs.New(sqs.Options{Retryer: cfg.Retryer(), APIOptions: cfg.APIOptions})
func (r *Retryer) Apply(cfg *aws.Config) {
	cfg.Retryer = func() aws.Retryer { return applied{r} }
	cfg.RetryMaxAttempts = 0
	options := make([]func(*middleware.Stack) error, 0, len(cfg.APIOptions)+1)
	cfg.APIOptions = append(append(options, cfg.APIOptions...), r.addMiddlewares)
}

// applied is the Retryer of a client that Apply has configured. The number of
// attempts can depend on the service and the context.
type applied struct{ *Retryer }

// unlimited is the MaxAttempts of applied: the call decides when to stop.
const unlimited = math.MaxInt32

func (applied) MaxAttempts() int { return unlimited }

// RetryDelay limits the attempts of a client that has cfg.Retryer but not
// cfg.APIOptions.
func (r applied) RetryDelay(attempt int, err error) (time.Duration, error) {
	if attempt >= r.attempts && r.attemptOf(err) == nil {
		return 0, refusal(context.Background(), attempt, awsretry.StopMaxAttempts, err)
	}
	return r.Retryer.RetryDelay(attempt, err)
}

// retryID is the name of the SDK's retry loop in the middleware stack.
const retryID = "Retry"

// signingID is the name of the middleware that signs the request.
const signingID = "Signing"

// The names of our middlewares.
const (
	callID    = "AWSRetryCall"
	attemptID = "AWSRetryAttempt"
	sendID    = "AWSRetrySend"
)

// addMiddlewares adds a middleware around the SDK's retry loop, another one
// around each attempt, which corrects the header, and one that sees the signed
// request. They replace those of another Retryer. A stack without the loop, such as that of a presigned request, stays
// as it is.
func (r *Retryer) addMiddlewares(stack *middleware.Stack) error {
	steps := stack.Finalize
	if _, ok := steps.Get(retryID); !ok {
		return nil
	}
	for _, id := range []string{callID, attemptID, sendID} {
		if _, ok := steps.Get(id); ok {
			if _, err := steps.Remove(id); err != nil {
				return fmt.Errorf("awssdk: %w", err)
			}
		}
	}
	o := &operation{name: stack.ID(), client: clientOf(stack), endpoint: baseEndpoint(stack)}
	around := middleware.FinalizeMiddlewareFunc(callID, func(
		ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
	) (middleware.FinalizeOutput, middleware.Metadata, error) {
		return r.handleCall(ctx, o, in, next)
	})
	if err := steps.Insert(around, retryID, middleware.Before); err != nil {
		return fmt.Errorf("awssdk: %w", err)
	}
	inside := middleware.FinalizeMiddlewareFunc(attemptID, handleAttempt)
	if err := steps.Insert(inside, retryID, middleware.After); err != nil {
		return fmt.Errorf("awssdk: %w", err)
	}
	after := attemptID
	if _, ok := steps.Get(signingID); ok {
		after = signingID
	}
	if err := steps.Insert(middleware.FinalizeMiddlewareFunc(sendID, o.handleSend), after, middleware.After); err != nil {
		return fmt.Errorf("awssdk: %w", err)
	}
	return nil
}
