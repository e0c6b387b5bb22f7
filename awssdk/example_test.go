package awssdk_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// quick keeps the examples short.
var quick = awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return 0 })

// A service fails the first requests that it gets with these error codes.
type service []string

// Do is the method of an aws.HTTPClient.
func (s *service) Do(req *http.Request) (*http.Response, error) {
	status, body := http.StatusOK, `{"Item": {"id": {"S": "1"}}}`
	if len(*s) > 0 {
		status, body = http.StatusBadRequest, `{"__type": "com.amazonaws.dynamodb.v20120810#`+(*s)[0]+`"}`
		if (*s)[0] == failure {
			status = http.StatusInternalServerError
		}
		*s = (*s)[1:]
	}
	return &http.Response{
		StatusCode: status,
		Header:     http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body:       io.NopCloser(strings.NewReader(body)),
		Request:    req,
	}, nil
}

const (
	failure    = "InternalServerError"
	throttling = "ProvisionedThroughputExceededException"
)

// newConfig returns an aws.Config for a service. A program has its own from
// config.LoadDefaultConfig.
func newConfig(codes ...string) aws.Config {
	s := service(codes)
	return aws.Config{Region: "us-east-1", Credentials: aws.AnonymousCredentials{}, HTTPClient: &s}
}

func getItem(table string) *dynamodb.GetItemInput {
	return &dynamodb.GetItemInput{
		TableName: aws.String(table),
		Key:       map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "1"}},
	}
}

// Apply makes all clients that are made from cfg retry by awsretry.
func Example() {
	ctx, cfg := context.Background(), newConfig(failure)
	run := func() error {
		retryer, err := awssdk.NewRetryer(awssdk.Config{Mode: awsretry.Adaptive, Backoff: quick})
		if err != nil {
			return err
		}
		retryer.Apply(&cfg)
		client := dynamodb.NewFromConfig(cfg)

		item, err := client.GetItem(ctx, getItem("orders"))
		if err != nil {
			return err
		}
		attempts, _ := retry.GetAttemptResults(item.ResultMetadata)
		fmt.Printf("%d item after %d attempts\n", len(item.Item), len(attempts.Results))
		return nil
	}
	if err := run(); err != nil {
		fmt.Println(err)
	}
	// Output: 1 item after 2 attempts
}

// Scaled pacing suits low rates and slow services.
func Example_scaledPacing() {
	retryer, err := awssdk.NewRetryer(awssdk.Config{
		Mode:      awsretry.Adaptive,
		RateLimit: awsretry.RateLimitConfig{Pacing: awsretry.ScaledPacing},
	})
	fmt.Println(retryer != nil, err)
	// Output: true <nil>
}

// The settings are those of the environment and the shared AWS files.
func ExampleLoad() {
	os.Setenv("AWS_CONFIG_FILE", "../testdata/readme/config")
	os.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	defer os.Unsetenv("AWS_CONFIG_FILE")
	defer os.Unsetenv("AWS_SHARED_CREDENTIALS_FILE")
	run := func() error {
		settings, err := awssdk.Load(awsretry.Source{Profile: "batch"})
		if err != nil {
			return err
		}
		retryer, err := awssdk.NewRetryer(settings)
		if err != nil {
			return err
		}
		fmt.Println(settings.Mode, retryer.MaxAttempts())
		return nil
	}
	if err := run(); err != nil {
		fmt.Println(err)
	}
	// Output: adaptive 8
}

// Each DynamoDB table has its own buckets, so that the throttling of one does
// not delay the others.
func ExampleRetryer_table() {
	ctx, cfg := context.Background(), newConfig(throttling, throttling, throttling, throttling)
	retryer, err := awssdk.NewRetryer(awssdk.Config{Revision: awsretry.Revision2026, Backoff: quick})
	if err != nil {
		fmt.Println(err)
		return
	}
	retryer.Apply(&cfg)
	client := dynamodb.NewFromConfig(cfg)

	for _, table := range []string{"orders", "customers"} {
		ctx = awsretry.WithPartition(ctx, table)
		_, err := client.GetItem(ctx, getItem(table))
		fmt.Println(table, "failed:", err != nil)
	}
	for name, state := range retryer.Partitions() {
		fmt.Println(name, state.Tokens)
	}
	// Output:
	// orders failed: true
	// customers failed: false
	// customers 500
	// orders 485
}

// All services share one retry token bucket.
func ExampleConfig_partition() {
	ctx, cfg := context.Background(), newConfig()
	retryer, err := awssdk.NewRetryer(awssdk.Config{
		Partition: func(context.Context) string { return "all services" },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	retryer.Apply(&cfg)
	for _, region := range []string{"us-east-1", "eu-central-1"} {
		client := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) { o.Region = region })
		if _, err := client.GetItem(ctx, getItem("orders")); err != nil {
			fmt.Println(err)
		}
	}
	for name, state := range retryer.Partitions() {
		fmt.Printf("%s: %d tokens\n", name, state.Tokens)
	}
	// Output: all services: 500 tokens
}

// Observe logs each retry and each call that gives up.
func ExampleConfig_observe() {
	ctx, cfg := context.Background(), newConfig(throttling)
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if slices.Contains([]string{slog.TimeKey, "call", "elapsed_ms", "method", "url", "partition"}, a.Key) {
				return slog.Attr{}
			}
			return a
		},
	}))
	retryer, err := awssdk.NewRetryer(awssdk.Config{
		Revision: awsretry.Revision2026, Observe: awsretry.LogTo(logger), Backoff: quick,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	retryer.Apply(&cfg)
	client := dynamodb.NewFromConfig(cfg)
	if _, err := client.GetItem(ctx, getItem("orders")); err != nil {
		fmt.Println(err)
	}
	// Output:
	// level=DEBUG msg=retrying attempt=1 max_attempts=4 class=throttled status=400 code=ProvisionedThroughputExceededException delay_ms=0
}
