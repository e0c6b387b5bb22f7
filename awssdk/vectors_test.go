package awssdk

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/awsproto"
	"example.com/awsretry/internal/vectors"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

// dynamoDBDefaults reports whether the attempts of v are DynamoDB's default.
func dynamoDBDefaults(v vectors.Vector) bool {
	return v.Revision == int(awsretry.Revision2026) && strings.HasPrefix(v.Target, "DynamoDB_") && v.MaxAttempts == 0
}

// longPolls reports whether a call of v ends with the delay of a long poll.
func longPolls(v vectors.Vector) bool {
	return slices.ContainsFunc(append(v.Calls, v.Call), func(c vectors.Call) bool { return c.End != 0 })
}

// The vectors that Transport is tested with: those of the AWS documents, and of
// the AWS SDKs for the 2026 revision.
func TestVectors(t *testing.T) {
	for _, v := range vectors.Read(t, "../testdata/vectors/retry.json") {
		t.Run(v.Name, func(t *testing.T) {
			each(t, func(t *testing.T, apply bool) {
				if !apply && dynamoDBDefaults(v) {
					t.Skip("the interface does not say that a call is of DynamoDB")
				}
				if !apply && longPolls(v) {
					t.Skip("the SDK's loop delays the long polls of its own clients only")
				}
				testVector(t, v, apply)
			})
		})
	}
}

func testVector(t *testing.T, v vectors.Vector, apply bool) {
	r := mustRetryer(t, Config{
		Mode: awsretry.Mode(v.Mode), Revision: awsretry.Revision(v.Revision), MaxAttempts: v.MaxAttempts,
		Backoff: awsretry.Exponential{Max: time.Duration(v.MaxBackoff), Jitter: awsretry.NoJitter},
		Quota:   awsretry.QuotaConfig{Capacity: v.Capacity}, RetryAfterSpread: -1,
	})
	service, operation := "S3", "PutObject"
	prefix, name, _ := strings.Cut(v.Target, ".")
	for known, target := range targets {
		if target == prefix+"." {
			service, operation = known, name
		}
	}
	left := func() int { return tokens(t, r, service+" us-east-1") }
	v.Test(t, func(call vectors.Call) vectors.Trace {
		trace := vectors.Trace{Start: time.Now()}
		c := &client{service: service, operation: operation, apply: apply}
		c.beforeEach = func() { trace.Tokens = append(trace.Tokens, left()) }
		var steps []step
		for _, answer := range call.Answers {
			header := make(http.Header)
			for name, value := range answer.Header {
				header.Set(name, value)
			}
			steps = append(steps, step{status: answer.Status, header: answer.Header, code: awsproto.HeaderCode(header)})
		}
		trace.Stop = string(stopOf(c.call(t.Context(), r, steps...)))
		trace.Sent, trace.Tokens = c.sent, append(trace.Tokens, left())[1:]
		return trace
	}, left)
}

// stopOf returns why the SDK's call ended.
func stopOf(err error) awsretry.Stop {
	var e *awsretry.Error
	var spent *retry.MaxAttemptsError
	switch {
	case err == nil:
		return awsretry.StopSuccess
	case errors.As(err, &e):
		return e.Stop
	case errors.As(err, &spent):
		return awsretry.StopMaxAttempts
	}
	return awsretry.StopPermanent
}
