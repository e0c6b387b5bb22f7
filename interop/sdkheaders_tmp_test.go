package interop

import (
	"net/http/httptest"
	"testing"
	"time"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
)

// TestSigV4SDKHeaders has SDKHeaders below a client that signs those headers itself: what is signed is left alone.
func TestSigV4SDKHeaders(t *testing.T) {
	service := &sigService{t: t, clock: &sigClock{now: time.Now().UTC()}, service: "dynamodb"}
	server := httptest.NewServer(service)
	defer server.Close()
	transport := &awsretry.Transport{Base: newBase(t), SDKHeaders: true}
	if err := ddbPut(t.Context(), newDynamoDB(server.Listener.Addr().String(), transport, aws.NopRetryer{}), 7); err != nil {
		t.Errorf("%v: the service's answers were %v", err, service.answers)
	}
}
