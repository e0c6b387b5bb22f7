package awssdk_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// quick keeps the examples short.
var quick = awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return 0 })

// A throttled service throttles the first requests that it gets.
type throttled int

// Do is the method of an aws.HTTPClient.
func (n *throttled) Do(req *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: http.StatusOK, Header: make(http.Header), Request: req}
	body := `{"Item": {"id": {"S": "1"}}}`
	if *n--; *n >= 0 {
		resp.StatusCode = http.StatusBadRequest
		body = `{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}`
	}
	resp.Header.Set("Content-Type", "application/x-amz-json-1.0")
	resp.Body = io.NopCloser(strings.NewReader(body))
	return resp, nil
}

// newConfig returns an aws.Config for a service that throttles the first n
// requests. A program has its own from config.LoadDefaultConfig.
func newConfig(n int) aws.Config {
	service := throttled(n)
	return aws.Config{Region: "us-east-1", Credentials: aws.AnonymousCredentials{}, HTTPClient: &service}
}

func getItem(table string) *dynamodb.GetItemInput {
	return &dynamodb.GetItemInput{
		TableName: aws.String(table),
		Key:       map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "1"}},
	}
}

// Apply makes all clients that are made from cfg retry by awsretry.
func Example() {
	ctx, cfg := context.Background(), newConfig(2)
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
		state, _ := retryer.State("DynamoDB us-east-1")
		fmt.Printf("%d item, paced: %v\n", len(item.Item), state.Limited)
		return nil
	}
	if err := run(); err != nil {
		fmt.Println(err)
	}
	// Output: 1 item, paced: true
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

// Each DynamoDB table has buckets of its own, so that the throttling of one does
// not delay the others.
func ExampleRetryer_table() {
	ctx, cfg := context.Background(), newConfig(1)
	retryer, err := awssdk.NewRetryer(awssdk.Config{Mode: awsretry.Adaptive, Backoff: quick})
	if err != nil {
		fmt.Println(err)
		return
	}
	retryer.Apply(&cfg)
	client := dynamodb.NewFromConfig(cfg)

	for _, table := range []string{"orders", "customers"} {
		ctx := awsretry.WithPartition(ctx, table)
		if _, err := client.GetItem(ctx, getItem(table)); err != nil {
			fmt.Println(err)
		}
	}
	for name, state := range retryer.Partitions() {
		fmt.Printf("%s: paced: %v\n", name, state.Limited)
	}
	// Output:
	// customers: paced: false
	// orders: paced: true
}

// All services share one retry token bucket.
func ExampleConfig_partition() {
	ctx, cfg := context.Background(), newConfig(0)
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
	ctx, cfg := context.Background(), newConfig(1)
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "elapsed" {
				return slog.Attr{} // they differ from run to run
			}
			return a
		},
	}))
	retryer, err := awssdk.NewRetryer(awssdk.Config{Observe: awsretry.LogTo(logger), Backoff: quick})
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
	// level=DEBUG msg=retrying method=POST url=https://dynamodb.us-east-1.amazonaws.com/ attempt=1 class=throttled status=400 code=ProvisionedThroughputExceededException delay=0s
}
