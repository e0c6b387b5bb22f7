// Package user uses each module as a program of another repository does.
package user

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"example.com/awsretry/delivery"
	"example.com/awsretry/deliveryqueue"
	"example.com/awsretry/deliveryqueue/webhook"
	"example.com/awsretry/fleet"
	"example.com/awsretry/otelretry"
	"example.com/awsretry/retryablehttp"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/valkey-io/valkey-go"
)

// failsOnce returns the URL of a server whose first response is an error, and
// its number of requests.
func failsOnce(t *testing.T, header http.Header, status int) (url string, requests *atomic.Int32) {
	requests = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			for name, values := range header {
				w.Header()[name] = values
			}
			w.WriteHeader(status)
		}
		io.WriteString(w, `{}`)
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

func get(t *testing.T, rt http.RoundTripper) {
	t.Helper()
	url, requests := failsOnce(t, nil, http.StatusServiceUnavailable)
	resp, err := (&http.Client{Transport: rt}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n := requests.Load(); resp.StatusCode != http.StatusOK || n != 2 {
		t.Errorf("%s after %d requests", resp.Status, n)
	}
}

func TestTransport(t *testing.T) {
	get(t, &awsretry.Transport{
		Policy: awsretry.IdempotentOnly(nil), Backoff: awsretry.Exponential{Initial: time.Millisecond},
	})
}

func TestMetrics(t *testing.T) {
	transport, err := otelretry.NewTransport(&awsretry.Transport{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	get(t, transport)
}

// TestFleet sends a request while the store of its fleet cannot be reached.
func TestFleet(t *testing.T) {
	store := fleet.Dial(valkey.ClientOption{InitAddress: []string{"127.0.0.1:1"}})
	defer store.Close()
	shared, err := fleet.New(store, fleet.Config{Prefix: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	get(t, &awsretry.Transport{Mode: awsretry.Adaptive, Shared: shared})
}

func TestRetryableHTTP(t *testing.T) {
	client := retryablehttp.NewClient()
	client.RetryWaitMin, client.Logger = time.Millisecond, nil
	get(t, client.StandardClient().Transport)
}

// TestSDK reads a DynamoDB item, at an endpoint that throttles once.
func TestSDK(t *testing.T) {
	url, requests := failsOnce(t, http.Header{"X-Amzn-Errortype": {"ThrottlingException"}}, http.StatusBadRequest)
	cfg := aws.Config{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(url),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "key", SecretAccessKey: "secret"}, nil
		}),
	}
	retryer, err := awssdk.NewRetryer(awssdk.Config{
		Mode: awsretry.Adaptive, Backoff: awsretry.Exponential{Initial: time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	retryer.Apply(&cfg)
	_, err = dynamodb.NewFromConfig(cfg).GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String("orders"),
		Key:       map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "7"}},
	})
	if n := requests.Load(); err != nil || n != 2 {
		t.Errorf("%v after %d requests", err, n)
	}
}

// TestWebhooks delivers a stored request.
func TestWebhooks(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	bodies := make(chan string, 1)
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		bodies <- string(body)
		stop()
	}))
	defer endpoint.Close()
	queue, err := deliveryqueue.Open(ctx, filepath.Join(t.TempDir(), "deliveries.db"),
		deliveryqueue.Config{Base: webhook.PublicOnly(webhook.Loopback()...)})
	if err != nil {
		t.Fatal(err)
	}
	defer queue.Close()
	req, err := http.NewRequest("POST", endpoint.URL, strings.NewReader("order 7"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := queue.Enqueue(ctx, req, deliveryqueue.Options{Policy: delivery.CustomerManaged()}); err != nil {
		t.Fatal(err)
	}
	if err := queue.Run(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-bodies:
		if got != "order 7" {
			t.Errorf("delivered %q", got)
		}
	default:
		t.Error("nothing was delivered")
	}
}
