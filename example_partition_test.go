package awsretry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"example.com/awsretry"
)

// A dynamoDB is a stub in place of the network: in eu-west-1 its table Orders has no capacity left.
type dynamoDB struct{}

func (dynamoDB) RoundTrip(req *http.Request) (*http.Response, error) {
	defer req.Body.Close()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if strings.Contains(req.URL.Host, "eu-west-1") && strings.Contains(string(body), `"Orders"`) {
		return answer(400, `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}`), nil
	}
	return answer(200, `{"Item":{}}`), nil
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

// DynamoDB throttles every table on its own, though all tables of a region answer at one host. With a partition for each
// region and table, the rate limiter holds back requests to the throttled table and to no other. An AWS SDK for Go hands
// the context of an operation on to its HTTP client.
func ExampleWithPartition() {
	transport := &awsretry.Transport{
		Mode:      awsretry.Adaptive,
		RateLimit: awsretry.RateLimitConfig{FailFast: true}, // rather the 400 now than to wait for the limiter
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
			fmt.Println(err) // awsretry.ErrRateLimited from now on, while the table Orders of eu-west-1 is held back
			return
		}
		resp.Body.Close()
		fmt.Println(item.region, item.table, resp.StatusCode)
	}
	for partition, state := range transport.Partitions() { // the one used last comes first
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

// The partition can be found in the request itself: the region stands in the host's name, the table in the body.
func ExampleTransport_partition() {
	regionAndTable := func(req *http.Request) string {
		var item struct{ TableName string }
		if req.GetBody != nil { // a copy, for the body itself is read once
			if body, err := req.GetBody(); err == nil {
				json.NewDecoder(body).Decode(&item) // without a table: one partition for the host's other requests
				body.Close()
			}
		}
		return req.URL.Host + "/" + item.TableName
	}
	transport := &awsretry.Transport{Mode: awsretry.Adaptive, Partition: regionAndTable, Base: dynamoDB{}}
	client := &http.Client{Transport: transport}
	for _, table := range []string{"Customers", "Products"} {
		resp, err := client.Do(getItem(context.Background(), "eu-west-1", table))
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
	}
	for partition, state := range transport.Partitions() {
		fmt.Println(partition, state.Tokens)
	}
	// Output:
	// dynamodb.eu-west-1.amazonaws.com/Products 500
	// dynamodb.eu-west-1.amazonaws.com/Customers 500
}
