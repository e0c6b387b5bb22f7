package interop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const ddbTable = "items"

// createTable makes ddbTable, without faults.
func createTable(t testing.TB, addr string) {
	t.Helper()
	client := newDynamoDB(addr, newBase(t), aws.NopRetryer{})
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:            aws.String(ddbTable),
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		BillingMode:          types.BillingModePayPerRequest,
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		out, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(ddbTable)})
		if err == nil && out.Table.TableStatus == types.TableStatusActive {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the table did not become active")
}

// ddbPayload is the i-th item's data: every length from 0 to 4,095 bytes, and every byte value.
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

func ddbGet(ctx context.Context, client *dynamodb.Client, i int) error {
	out, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(ddbTable), Key: ddbKey(i),
		ConsistentRead: aws.Bool(true)})
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

// ddbScan returns how many items the table holds.
func ddbScan(ctx context.Context, client *dynamodb.Client) (items int, err error) {
	pages := dynamodb.NewScanPaginator(client, &dynamodb.ScanInput{TableName: aws.String(ddbTable), Limit: aws.Int32(300)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return items, err
		}
		items += len(page.Items)
	}
	return items, nil
}

// TestDynamoDB makes 2,000 operations of which one request in ten fails. Settings beside newRetrying's: none in either mode.
func TestDynamoDB(t *testing.T) {
	backend := startDynalite(t)
	createTable(t, backend)
	const items = 1000
	service := &faultyService{
		pick: randomFaults(0.1, faultServerError, faultUnavailable, faultBare, faultThrottling, faultEarly, faultReset,
			faultLost, faultCut),
		answer: answerJSON,
	}
	addr := startFaulty(t, service, backend)
	log := newAttemptLog()
	transport := newRetrying(newBase(t), log.observe)
	client := newDynamoDB(addr, transport, aws.NopRetryer{})
	start := time.Now()
	inParallel(items, 16, func(i int) {
		if err := ddbPut(t.Context(), client, i); err != nil {
			t.Errorf("put %d: %v", i, err)
		}
	})
	inParallel(items, 16, func(i int) {
		if err := ddbGet(t.Context(), client, i); err != nil {
			t.Errorf("get %d: %v", i, err)
		}
	})
	if n, err := ddbScan(t.Context(), client); err != nil || n != items {
		t.Errorf("the table holds %d items (%v), want %d", n, err, items)
	}
	checkFigures(t, service, log, transport, addr, 2*items)
	t.Logf("%v for all of it", time.Since(start).Round(time.Millisecond))
}

// checkFigures checks what the server counted, and prints it.
func checkFigures(t *testing.T, service *faultyService, log *attemptLog, transport *awsretry.Transport, addr string, minCalls int) {
	t.Helper()
	calls, sent, most, faults := service.figures()
	if calls < minCalls {
		t.Errorf("the server saw %d operations, want %d or more", calls, minCalls)
	}
	if most > retryAttempts {
		t.Errorf("%d attempts of one operation reached the server, want at most %d", most, retryAttempts)
	}
	if log.retries == 0 {
		t.Error("nothing was retried, so nothing was tested")
	}
	state, ok := transport.State(addr)
	if !ok || state.Tokens < 0 || state.Tokens > 500 {
		t.Errorf("the retry quota holds %d tokens, want 0 to 500", state.Tokens)
	}
	t.Logf("%d operations, %d requests, at most %d for one; %d retries, %d tokens left%s",
		calls, sent, most, log.retries, state.Tokens, faults)
}

// TestDynamoDBAdaptive throttles with the service's own code until the client slows down. Settings beside newRetrying's: the
// mode, and a MinFillRate that keeps the test short.
func TestDynamoDBAdaptive(t *testing.T) {
	backend := startDynalite(t)
	createTable(t, backend)
	service := &faultyService{pick: randomFaults(0.05, faultThrottling), answer: answerJSON}
	addr := startFaulty(t, service, backend)
	log := newAttemptLog()
	transport := newRetrying(newBase(t), log.observe)
	transport.Mode, transport.RateLimit.MinFillRate = awsretry.Adaptive, 30
	client := newDynamoDB(addr, transport, aws.NopRetryer{})
	const items = 75
	inParallel(items, 16, func(i int) {
		if err := ddbPut(t.Context(), client, i); err != nil {
			t.Errorf("put %d: %v", i, err)
		}
	})
	inParallel(items, 16, func(i int) {
		if err := ddbGet(t.Context(), client, i); err != nil {
			t.Errorf("get %d: %v", i, err)
		}
	})
	checkFigures(t, service, log, transport, addr, 2*items)
	state, _ := transport.State(addr)
	if !state.Limited {
		t.Error("the rate limiter is off after throttling")
	}
	t.Logf("measured %.1f/s, allowed %.1f/s", state.MeasuredRate, state.SendRate)
}
