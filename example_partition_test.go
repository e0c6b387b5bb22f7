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
	if strings.Contains(req.URL.Host, "eu-west-1") && strings.Contains(string(body), `"Orders"`) {
		return dynamoDBResponse(400,
			`{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}`), nil
	}
	return dynamoDBResponse(200, `{"Item":{}}`), nil
}

func dynamoDBResponse(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status,
		Header:     http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body:       io.NopCloser(strings.NewReader(body)),
	}
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
		if err != nil {
			fmt.Println(err) // it is awsretry.ErrRateLimited while a table is held back
			return
		}
		resp.Body.Close()
		fmt.Println(item.region, item.table, resp.StatusCode)
	}
	for partition, state := range transport.Partitions() { // the most recently used one comes first
		fmt.Println(partition, "is held back:", state.Limited)
	}
	// Output:
	// eu-west-1 Orders 400
	// eu-west-1 Customers 200
	// us-east-1 Orders 200
	// us-east-1/Orders is held back: false
	// eu-west-1/Customers is held back: false
	// eu-west-1/Orders is held back: true
}
