package clients

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"example.com/awsretry"
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

// createTable makes ddbTable, without faults.
func createTable(t testing.TB, addr string) {
	t.Helper()
	client := newDynamoDB(addr, kit.Pool(t), aws.NopRetryer{})
	id := aws.String("id")
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String(ddbTable),
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: id, AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema:   []types.KeySchemaElement{{AttributeName: id, KeyType: types.KeyTypeHash}},
		BillingMode: types.BillingModePayPerRequest,
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

// ddbPutAndGet writes and reads items with 16 goroutines. The table then has no
// others.
func ddbPutAndGet(t *testing.T, client *dynamodb.Client, items int) {
	t.Helper()
	for _, do := range []func(context.Context, *dynamodb.Client, int) error{ddbPut, ddbGet} {
		kit.InParallel(items, 16, func(i int) {
			if err := do(t.Context(), client, i); err != nil {
				t.Errorf("item %d: %v", i, err)
			}
		})
	}
	input := &dynamodb.ScanInput{TableName: aws.String(ddbTable), Limit: aws.Int32(50)}
	n := 0
	for pages := dynamodb.NewScanPaginator(client, input); pages.HasMorePages(); {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n += len(page.Items)
	}
	if n != items {
		t.Errorf("the table has %d items, want %d", n, items)
	}
}

// failDynamoDB responds as DynamoDB does.
func failDynamoDB(w http.ResponseWriter, f fault) {
	status, code := http.StatusInternalServerError, "InternalServerError"
	switch f {
	case faultUnavailable:
		status, code = http.StatusServiceUnavailable, "ServiceUnavailable"
	case faultThrottling:
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
	createTable(t, addr)
	return addr
}

// One request in ten fails, and no operation does.
func TestDynamoDB(t *testing.T) {
	backend := startDynalite(t)
	kinds := []fault{
		faultServerError, faultUnavailable, faultBare, faultThrottling, faultEarly, faultReset, faultLost, faultCut,
	}
	for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Adaptive} {
		t.Run(string(mode), func(t *testing.T) {
			service := &faultyService{pick: randomFaults(0.1, kinds...), fail: failDynamoDB}
			base, addr := startFaulty(t, service, backend)
			log := newAttemptLog()
			tr := forFaultyService(base, log.observe)
			tr.Mode, tr.RateLimit.MinFillRate = mode, 200 // a low rate would make the test long
			ddbPutAndGet(t, newDynamoDB(addr, tr, aws.NopRetryer{}), 200)
			log.check(t, service, tr)
			service.wantFaults(t, kinds...)
			if state, _ := tr.State(addr); state.Limited != (mode == awsretry.Adaptive) {
				t.Errorf("limited by a rate: %v", state.Limited)
			}
		})
	}
}
