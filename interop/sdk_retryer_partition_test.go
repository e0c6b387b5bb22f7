package interop

import (
	"context"
	"slices"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"
)

// Clients that share a Retryer have buckets of their own for each service and
// region, unless the Config says otherwise.
func TestRetryerSharedByClients(t *testing.T) {
	for _, tt := range []struct {
		name      string
		partition func(context.Context) string
		tokens    map[string]int
	}{
		{
			"by service and region", nil,
			map[string]int{ddbPartition: 500 - 15, "DynamoDB eu-west-1": 500, s3Partition: 500 - 5},
		},
		{"one for all", func(context.Context) string { return "account" }, map[string]int{"account": 500 - 20 + 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				r := newRetryer(t, awssdk.Config{Partition: tt.partition})
				// The first client fails for good, the third one after a retry.
				drained := &sdkStub{steps: []sdkStep{failed, busy, failed}}
				dynamodb.NewFromConfig(u.config(r, "us.example", drained)).ListTables(t.Context(), nil)
				cfg := u.config(r, "s3.example", &sdkStub{steps: []sdkStep{{status: 500}, {status: 404}}})
				s3.NewFromConfig(cfg).ListBuckets(t.Context(), nil)
				cfg = u.config(r, "eu.example", new(sdkStub))
				cfg.Region = "eu-west-1"
				if _, err := dynamodb.NewFromConfig(cfg).ListTables(t.Context(), nil); err != nil {
					t.Error(err)
				}
				got := make(map[string]int)
				for name, state := range r.Partitions() {
					got[name] = state.Tokens
				}
				if diff := cmp.Diff(tt.tokens, got); diff != "" {
					t.Errorf("tokens (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Throttling of one table delays the other one only if they share a partition.
func TestRetryerTables(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   func(ctx context.Context, table string) context.Context
		wait time.Duration // of the table that is not throttled
	}{
		{"a partition for each", awsretry.WithPartition, 0},
		{"one for both", func(ctx context.Context, _ string) context.Context { return ctx }, 20 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, u retryerUse) {
				var seen recorder
				r := newRetryer(t, awssdk.Config{
					Mode: awsretry.Adaptive, Observe: seen.observe,
					RateLimit: awsretry.RateLimitConfig{MinFillRate: 0.05}, // a token each 20 s
				})
				client := dynamodb.NewFromConfig(u.config(r, "ddb.example", &sdkStub{steps: []sdkStep{busy}}))
				hot, cold := tt.in(t.Context(), "hot"), tt.in(t.Context(), "cold")
				if _, err := client.ListTables(awsretry.WithoutRetry(hot), nil); err == nil {
					t.Fatal("the hot table is not throttled")
				}
				start := time.Now()
				if _, err := client.ListTables(cold, nil); err != nil {
					t.Error(err)
				}
				if took := time.Since(start).Round(time.Millisecond); took != tt.wait {
					t.Errorf("the cold table took %v, want %v", took, tt.wait)
				}
				var names []string
				for _, a := range seen.records {
					names = append(names, a.Partition)
				}
				want := []string{ddbPartition, ddbPartition}
				if tt.wait == 0 {
					want = []string{"hot", "cold"}
				}
				if u.apply && !slices.Equal(names, want) {
					t.Errorf("the attempts are in %q, want %q", names, want)
				}
			})
		})
	}
}
