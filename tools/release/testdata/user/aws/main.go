// Command aws reads a DynamoDB item, at an endpoint that throttles once.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func main() {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		if requests.Add(1) == 1 {
			w.Header().Set("X-Amzn-ErrorType", "ThrottlingException")
			w.WriteHeader(http.StatusBadRequest)
		}
		io.WriteString(w, `{}`)
	}))
	defer server.Close()
	cfg := aws.Config{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(server.URL),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "key", SecretAccessKey: "secret"}, nil
		}),
	}
	retryer, err := awssdk.NewRetryer(awssdk.Config{
		Mode: awsretry.Adaptive, Backoff: awsretry.Exponential{Initial: time.Millisecond},
	})
	if err != nil {
		log.Fatal(err)
	}
	retryer.Apply(&cfg)
	_, err = dynamodb.NewFromConfig(cfg).GetItem(context.Background(), &dynamodb.GetItemInput{
		TableName: aws.String("orders"),
		Key:       map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "7"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("read after", requests.Load(), "requests")
}
