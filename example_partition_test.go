package awsretry_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"example.com/awsretry"
)

// A dynamoDB is a fake of the service. Its table Orders in eu-west-1 has no
// capacity left.
type dynamoDB struct{}

func (dynamoDB) RoundTrip(req *http.Request) (*http.Response, error) {
	defer req.Body.Close()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	resp := &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}
	if strings.Contains(req.URL.Host, "eu-west-1") && strings.Contains(string(body), `"Orders"`) {
		resp.StatusCode = 400
		resp.Header.Set("X-Amzn-ErrorType", "ProvisionedThroughputExceededException")
	}
	return resp, nil
}

func getItem(ctx context.Context, region, table string) *http.Request {
	body := strings.NewReader(fmt.Sprintf(`{"TableName":%q,"Key":{"ID":{"S":"1"}}}`, table))
	req, err := http.NewRequestWithContext(ctx, "POST", "https://dynamodb."+region+".amazonaws.com/", body)
	if err != nil {
		panic(err)
	}
	req.Header.Set("X-Amz-Target", "DynamoDB_20120810.GetItem")
	return req
}

// DynamoDB throttles each table separately, although all tables of a region
// have one host. With a partition for each region and table, the rate limiter
// holds back the requests to the throttled table only. An AWS SDK for Go passes
// the context of an operation on to its HTTP client.
func ExampleWithPartition() {
	transport := &awsretry.Transport{
		Mode:      awsretry.Adaptive,
		RateLimit: awsretry.RateLimitConfig{FailFast: true}, // return the 400 now, do not wait for the limiter
		Base:      dynamoDB{},
		Backoff:   quick,
	}
	client := &http.Client{Transport: transport}
	for _, item := range []struct{ region, table string }{
		{"eu-west-1", "Orders"},
		{"eu-west-1", "Customers"},
		{"us-east-1", "Orders"},
	} {
		ctx := awsretry.WithPartition(context.Background(), item.region+"/"+item.table)
		resp, err := client.Do(getItem(ctx, item.region, item.table))
		printStatus(resp, err, item.region, item.table) // err is awsretry.ErrRateLimited while a table is held back
	}
	for partition, state := range transport.Partitions() { // the most recently used one comes first
		fmt.Println(partition, "is held back:", state.Limited)
	}
	// Output:
	// 400 eu-west-1 Orders
	// 200 eu-west-1 Customers
	// 200 us-east-1 Orders
	// us-east-1/Orders is held back: false
	// eu-west-1/Customers is held back: false
	// eu-west-1/Orders is held back: true
}
