package interop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	gocmp "github.com/google/go-cmp/cmp"
)

// The number of attempts is that of the context, of the operation, of the
// client or of the Retryer, in this order.
func TestRetryerMaxAttempts(t *testing.T) {
	for _, tt := range []struct {
		name              string
		revision          awsretry.Revision
		client, operation int // RetryMaxAttempts
		context           int // WithMaxAttempts, for an applied Retryer
		s3, dynamodb      int // attempts
	}{
		{name: "5 on the client", client: 5, s3: 5, dynamodb: 5},
		{name: "1 on the client", client: 1, s3: 1, dynamodb: 1},
		{name: "5 on the operation", operation: 5, s3: 5, dynamodb: 5},
		{name: "1 on the operation of a client with 5", client: 5, operation: 1, s3: 1, dynamodb: 1},
		{name: "3 on the client in 2026", revision: awsretry.Revision2026, client: 3, s3: 3, dynamodb: 3},
		{name: "4 on the client in 2026", revision: awsretry.Revision2026, client: 4, s3: 4, dynamodb: 4},
		{name: "4 on the operation in 2026", revision: awsretry.Revision2026, operation: 4, s3: 4, dynamodb: 4},
		{name: "none in 2026", revision: awsretry.Revision2026, s3: 3, dynamodb: 4},
		{name: "2 in the context, 5 on the client", client: 5, context: 2, s3: 2, dynamodb: 2},
		{name: "6 in the context", context: 6, s3: 6, dynamodb: 6},
		{name: "5 in the context, 2 on the client", client: 2, context: 5, s3: 2, dynamodb: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				if !u.apply {
					if tt.context > 0 {
						tt.s3, tt.dynamodb = cmp.Or(tt.client, 3), cmp.Or(tt.client, 3)
					}
					if tt.client+tt.operation == 0 {
						tt.dynamodb = 3
					}
				}
				ctx := t.Context()
				if tt.context > 0 {
					ctx = awsretry.WithMaxAttempts(ctx, tt.context)
				}
				stub := &sdkStub{steps: slices.Repeat([]sdkStep{failed}, 20)}
				var seen recorder
				r := newRetryer(t, awssdk.Config{Revision: tt.revision, Observe: seen.observe})
				cfg := u.config(r, "service.example", stub)
				cfg.RetryMaxAttempts = tt.client
				_, s3Err := s3.NewFromConfig(cfg).ListBuckets(ctx, nil, func(o *s3.Options) {
					if tt.operation > 0 {
						o.RetryMaxAttempts = tt.operation
					}
				})
				_, ddbErr := dynamodb.NewFromConfig(cfg).ListTables(ctx, nil, func(o *dynamodb.Options) {
					if tt.operation > 0 {
						o.RetryMaxAttempts = tt.operation
					}
				})
				for _, err := range []error{s3Err, ddbErr} {
					if stopOf(err) != awsretry.StopMaxAttempts {
						t.Errorf("ended as %q: %v", stopOf(err), err)
					}
				}
				var want []string
				var stops []int
				for _, attempts := range []int{tt.s3, tt.dynamodb} {
					for i := range attempts {
						want = append(want, fmt.Sprintf("attempt=%d; max=%d", i+1, attempts))
					}
					stops = append(stops, attempts)
				}
				if diff := gocmp.Diff(want, stub.headers("Amz-Sdk-Request")); diff != "" {
					t.Errorf("headers (-want +got):\n%s", diff)
				}
				var stopped []int
				for _, a := range seen.records {
					if a.Stop == awsretry.StopMaxAttempts {
						stopped = append(stopped, a.Number)
					}
				}
				if u.apply && !slices.Equal(stopped, stops) {
					t.Errorf("attempts %v were observed as the last ones, want %v", stopped, stops)
				}
			})
		})
	}
}

// What the SDK's package retry wraps around a Retryer works.
func TestRetryerWrapped(t *testing.T) {
	custom := sdkStep{status: 400, code: "Custom"}
	for _, tt := range []struct {
		name    string
		wrap    func(aws.Retryer) aws.Retryer
		steps   []sdkStep
		stop    awsretry.Stop
		records []record // nil: any
		sent    int
		longest time.Duration // between two requests
		tokens  int
	}{
		{
			"AddWithErrorCodes",
			func(r aws.Retryer) aws.Retryer { return retry.AddWithErrorCodes(r, "Custom") },
			[]sdkStep{custom, failed, custom},
			awsretry.StopMaxAttempts,
			recordsOf(ddbPartition,
				record{Class: awsretry.Transient, Code: "Custom", Delay: time.Second},
				record{Class: awsretry.Transient, Code: "InternalServerError", Delay: 2 * time.Second},
				record{Class: awsretry.Transient, Code: "Custom", Stop: awsretry.StopMaxAttempts}),
			3, 2 * time.Second, 490,
		},
		{
			"AddWithMaxBackoffDelay",
			func(r aws.Retryer) aws.Retryer { return retry.AddWithMaxBackoffDelay(r, 10*time.Millisecond) },
			[]sdkStep{failed, failed},
			awsretry.StopSuccess,
			nil,
			3, 10 * time.Millisecond, 495,
		},
		{
			"AddWithMaxAttempts",
			func(r aws.Retryer) aws.Retryer { return retry.AddWithMaxAttempts(r, 2) },
			[]sdkStep{failed, failed},
			awsretry.StopMaxAttempts,
			recordsOf(ddbPartition,
				record{Class: awsretry.Transient, Code: "InternalServerError", Delay: time.Second},
				record{Class: awsretry.Transient, Code: "InternalServerError", Stop: awsretry.StopMaxAttempts}),
			2, time.Second, 495,
		},
		{
			"NopRetryer in its place",
			func(aws.Retryer) aws.Retryer { return aws.NopRetryer{} },
			[]sdkStep{failed},
			awsretry.StopPermanent,
			[]record{},
			1, 0, 500,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				stub := &sdkStub{steps: tt.steps}
				var seen recorder
				r := newRetryer(t, awssdk.Config{Observe: seen.observe})
				client := dynamodb.NewFromConfig(u.config(r, "ddb.example", stub))
				for range r.Partitions() {
					t.Error("there is a partition before the first call")
				}
				wrap := func(o *dynamodb.Options) { o.Retryer = tt.wrap(o.Retryer) }
				_, err := client.ListTables(t.Context(), nil, wrap)
				if stopOf(err) != tt.stop {
					t.Errorf("ended as %q, want %q: %v", stopOf(err), tt.stop, err)
				}
				if len(stub.sent) != tt.sent {
					t.Errorf("%d requests, want %d", len(stub.sent), tt.sent)
				}
				if delays := stub.delays(); len(delays) > 0 && slices.Max(delays) > tt.longest {
					t.Errorf("delays %v, want at most %v", delays, tt.longest)
				}
				if tt.records != nil && u.apply {
					if diff := gocmp.Diff(tt.records, seen.records, cmpEmpty); diff != "" {
						t.Errorf("records (-want +got):\n%s", diff)
					}
				}
				if state, ok := r.State(ddbPartition); ok && state.Tokens != tt.tokens {
					t.Errorf("%d tokens, want %d", state.Tokens, tt.tokens)
				}
				// The next call is not affected.
				seen.records, stub.steps = nil, nil
				if _, err := client.ListTables(t.Context(), nil); err != nil || u.apply && len(seen.records) != 1 {
					t.Errorf("the next call: %v, records %v", err, seen.records)
				}
			})
		})
	}
}

// Credentials come from calls within calls, which retry on their own.
func TestRetryerCredentials(t *testing.T) {
	for _, nested := range []bool{true, false} {
		t.Run(fmt.Sprintf("applied to the client of the provider %v", nested), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				var seen recorder
				r := newRetryer(t, awssdk.Config{Mode: awsretry.Adaptive, Observe: seen.observe})
				inner := &sdkStub{steps: []sdkStep{failed}}
				provider := dynamodb.NewFromConfig(retryerUse{apply: nested}.config(r, "sts.example", inner))
				outer := &sdkStub{steps: []sdkStep{{status: 503}}}
				cfg := u.config(r, "s3.example", outer)
				provide := func(ctx context.Context) (aws.Credentials, error) {
					if _, err := provider.ListTables(ctx, nil); err != nil {
						return aws.Credentials{}, err
					}
					return sdkCredentials(ctx)
				}
				cfg.Credentials = aws.NewCredentialsCache(aws.CredentialsProviderFunc(provide))
				if _, err := s3.NewFromConfig(cfg).ListBuckets(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				var want []record
				if nested {
					want = recordsOf(ddbPartition,
						record{Class: awsretry.Transient, Code: "InternalServerError", Delay: time.Second},
						record{Class: awsretry.Success, Stop: awsretry.StopSuccess})
				}
				if u.apply {
					want = append(want, recordsOf(s3Partition,
						record{Class: awsretry.Transient, Code: "ServiceUnavailable", Delay: time.Second},
						record{Class: awsretry.Success, Stop: awsretry.StopSuccess})...)
				}
				if diff := gocmp.Diff(want, seen.records, cmpEmpty); diff != "" {
					t.Errorf("records (-want +got):\n%s", diff)
				}
				if len(inner.sent) != 2 || len(outer.sent) != 2 {
					t.Errorf("%d requests for credentials, then %d, want 2 and 2", len(inner.sent), len(outer.sent))
				}
				wantTokens(t, r, ddbPartition, 500)
				wantTokens(t, r, s3Partition, 500)
			})
		})
	}
}

// Where the call for credentials fails, the call that needs them ends as it
// does with the SDK's retryer.
func TestRetryerNoCredentials(t *testing.T) {
	for _, step := range []sdkStep{failed, wrong} {
		for _, nested := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, applied to the client of the provider %v", step.code, nested), func(t *testing.T) {
				inVirtualTime(t, func(t *testing.T, u retryerUse) {
					r := newRetryer(t, awssdk.Config{})
					got := withoutCredentials(t, step, retryerUse{apply: nested}.config(r, "", nil), u.config(r, "", nil))
					own := aws.Config{Region: "us-east-1", Credentials: sdkCredentials, Retryer: sdkRetryer}
					if want := withoutCredentials(t, step, own, own); got != want {
						t.Errorf("%d requests for credentials, with the SDK's retryer %d", got, want)
					}
				})
			})
		}
	}
}

// withoutCredentials makes a call that needs credentials from another client,
// which gets no response but those of step. It returns how many requests for
// credentials were sent.
func withoutCredentials(t *testing.T, step sdkStep, inner, outer aws.Config) int {
	t.Helper()
	stub := &sdkStub{steps: slices.Repeat([]sdkStep{step}, 20)}
	inner.HTTPClient = &http.Client{Transport: stub}
	inner.BaseEndpoint, outer.BaseEndpoint = aws.String("http://sts.example"), aws.String("http://s3.example")
	provider := dynamodb.NewFromConfig(inner)
	outer.Credentials = aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		_, err := provider.ListTables(ctx, nil)
		return aws.Credentials{}, err
	})
	if _, err := s3.NewFromConfig(outer).ListBuckets(t.Context(), nil); err == nil {
		t.Error("a call without credentials succeeds")
	}
	return len(stub.sent)
}

// A configuration that two Retryers are applied to has the second one.
func TestRetryerAppliedTwice(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, u retryerUse) {
		var first, second recorder
		stub := &sdkStub{steps: []sdkStep{failed}}
		cfg := u.config(newRetryer(t, awssdk.Config{Observe: first.observe}), "ddb.example", stub)
		newRetryer(t, awssdk.Config{Observe: second.observe}).Apply(&cfg)
		if _, err := dynamodb.NewFromConfig(cfg).ListTables(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if len(first.records) != 0 || len(second.records) != 2 || len(stub.sent) != 2 {
			t.Errorf("%d requests; the first Retryer observed %d, the second one %d",
				len(stub.sent), len(first.records), len(second.records))
		}
	})
}

// A client that has the Retryer of Apply without the rest of it makes the
// attempts of most services.
func TestRetryerHalfApplied(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, u retryerUse) {
		stub := &sdkStub{steps: slices.Repeat([]sdkStep{failed}, 9)}
		r := newRetryer(t, awssdk.Config{Revision: awsretry.Revision2026})
		cfg := u.config(r, "ddb.example", stub)
		cfg.APIOptions = nil
		_, err := dynamodb.NewFromConfig(cfg).ListTables(t.Context(), nil)
		var api smithy.APIError
		if stopOf(err) != awsretry.StopMaxAttempts || !errors.As(err, &api) || len(stub.sent) != 3 {
			t.Errorf("%d requests, want 3: %v", len(stub.sent), err)
		}
	})
}

// An operation may have another Retryer than its client.
func TestRetryerOfOperation(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, u retryerUse) {
		var seen recorder
		r := newRetryer(t, awssdk.Config{Observe: seen.observe})
		other := newRetryer(t, awssdk.Config{MaxAttempts: 2})
		stub := &sdkStub{steps: slices.Repeat([]sdkStep{failed}, 9)}
		client := dynamodb.NewFromConfig(u.config(r, "ddb.example", stub))
		_, err := client.ListTables(t.Context(), nil, func(o *dynamodb.Options) { o.Retryer = other })
		if stopOf(err) != awsretry.StopMaxAttempts || len(stub.sent) != 2 {
			t.Errorf("%d requests, want 2: %v", len(stub.sent), err)
		}
		if len(seen.records) != 0 {
			t.Errorf("the client's Retryer observed %v", seen.records)
		}
		wantTokens(t, other, ddbPartition, 495)
	})
}
