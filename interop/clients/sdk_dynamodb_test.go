package clients

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"example.com/awsretry/interop/internal/kit"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const ddbTable = "items"

// newDynamoDB returns an SDK client for the service at addr.
func newDynamoDB(addr string, rt http.RoundTripper, retryer aws.Retryer) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		Credentials:  sdkCredentials,
		BaseEndpoint: aws.String("http://" + addr),
		HTTPClient:   &http.Client{Transport: rt},
		Retryer:      retryer,
	})
}

// ddbPayload returns the data of the i-th item, up to 4 KiB.
func ddbPayload(i int) []byte {
	sum := sha256.Sum256([]byte(strconv.Itoa(i)))
	return bytes.Repeat(sum[:], 128)[:i*37%4096]
}

func ddbKey(i int) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: fmt.Sprint("item-", i)}}
}

func ddbPut(ctx context.Context, client *dynamodb.Client, i int) error {
	item := ddbKey(i)
	item["data"] = &types.AttributeValueMemberB{Value: ddbPayload(i)}
	_, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(ddbTable), Item: item})
	return err
}

// ddbGet reads an item back and compares it.
func ddbGet(ctx context.Context, client *dynamodb.Client, i int) error {
	out, err := client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: aws.String(ddbTable), Key: ddbKey(i), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return err
	}
	data, ok := out.Item["data"].(*types.AttributeValueMemberB)
	switch {
	case !ok:
		return errors.New("the item is lost")
	case !bytes.Equal(data.Value, ddbPayload(i)):
		return fmt.Errorf("%d bytes were read back, not the %d that were written", len(data.Value), len(ddbPayload(i)))
	}
	return nil
}

// ddbPutAndGet writes and reads items with 16 goroutines.
func ddbPutAndGet(t *testing.T, client *dynamodb.Client) {
	t.Helper()
	const items = 80
	for _, do := range []func(context.Context, *dynamodb.Client, int) error{ddbPut, ddbGet} {
		kit.InParallel(items, 16, func(i int) {
			if err := do(t.Context(), client, i); err != nil {
				t.Errorf("item %d: %v", i, err)
			}
		})
	}
}

// failDynamoDB responds as DynamoDB does.
func failDynamoDB(w http.ResponseWriter, f fault) {
	status, code := http.StatusInternalServerError, "InternalServerError"
	if f == faultThrottling {
		status, code = http.StatusBadRequest, "ProvisionedThroughputExceededException"
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"a fault of the test"}`, code)
}

// startDynalite starts a DynamoDB server in memory, with ddbTable.
func startDynalite(t testing.TB) (addr string) {
	t.Helper()
	addr = kit.StartNode(t, `
		const server = require('dynalite')({createTableMs: 0, deleteTableMs: 0, updateTableMs: 0});
		server.listen(0, '127.0.0.1', () => console.log(server.address().port));`)
	client, id := newDynamoDB(addr, kit.Pool(t), aws.NopRetryer{}), aws.String("id")
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:            aws.String(ddbTable),
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: id, AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: id, KeyType: types.KeyTypeHash}},
		BillingMode:          types.BillingModePayPerRequest,
	})
	if err != nil {
		t.Fatal(err)
	}
	if !kit.Eventually(func() bool {
		out, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(ddbTable)})
		return err == nil && out.Table.TableStatus == types.TableStatusActive
	}) {
		t.Fatal("the table did not become active")
	}
	return addr
}

// Many requests fail, and no operation does: over a Transport, and with each use
// of the Retryer.
func TestDynamoDB(t *testing.T) {
	backend := startDynalite(t)
	kinds := []fault{faultServerError, faultBare, faultThrottling, faultEarly, faultReset, faultLost}
	start := func(t *testing.T) (*faultyService, *http.Transport, string) {
		service := &faultyService{pick: randomFaults(0.3, kinds...), fail: failDynamoDB}
		base, addr := startFaulty(t, service, backend)
		return service, base, addr
	}
	const attempts = 20
	t.Run("Transport", func(t *testing.T) {
		service, base, addr := start(t)
		tr := forFaultyService(base)
		tr.MaxAttempts = attempts
		ddbPutAndGet(t, newDynamoDB(addr, tr, aws.NopRetryer{}))
		service.check(t, attempts, kinds...)
	})
	for _, u := range retryerUses {
		t.Run(u.String(), func(t *testing.T) {
			service, base, addr := start(t)
			var observed atomic.Int32
			r := newRetryer(t, awssdk.Config{
				Mode: awsretry.Adaptive, MaxAttempts: attempts,
				RateLimit: awsretry.RateLimitConfig{MinFillRate: 200}, // a low rate would make the test long
				Backoff:   awsretry.Exponential{Initial: time.Millisecond},
				Observe:   func(awsretry.Attempt) { observed.Add(1) },
			})
			ddbPutAndGet(t, dynamodb.NewFromConfig(u.config(r, addr, base)))
			service.check(t, attempts, kinds...)
			if state, _ := r.State(latest(r, ddbPartition)); !state.Limited {
				t.Errorf("the state is %+v", state)
			}
			want := 0 // nothing is observed without Apply
			if u.apply {
				_, want, _ = service.figures()
			}
			if int(observed.Load()) != want {
				t.Errorf("%d attempts were observed, want %d", observed.Load(), want)
			}
		})
	}
}
