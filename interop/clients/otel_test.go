package clients

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"example.com/awsretry/awssdk"
	"example.com/awsretry/otelretry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// meteredRetryer is the example of otelretry's README.
func meteredRetryer(meters metric.MeterProvider) (*awssdk.Retryer, error) {
	recorder, err := otelretry.NewRecorder(meters)
	if err != nil {
		return nil, err
	}
	retryer, err := awssdk.NewRetryer(awssdk.Config{Observe: recorder.Observe})
	if err != nil {
		return nil, err
	}
	_, err = recorder.Watch(retryer)
	return retryer, err
}

// The attempts of the AWS SDK's clients, and the buckets of their Retryer, are
// metrics.
func TestRetryerMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		r, err := meteredRetryer(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
		if err != nil {
			t.Fatal(err)
		}
		cfg := retryerUse{apply: true}.config(r, "ddb.example", &sdkStub{steps: []sdkStep{failed, {}}})
		if _, err := dynamodb.NewFromConfig(cfg).ListTables(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		var all metricdata.ResourceMetrics
		if err := reader.Collect(context.Background(), &all); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range all.ScopeMetrics[0].Metrics {
			names = append(names, m.Name)
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				if want := map[string]int{"client.call.attempts": 2}[m.Name]; want != 0 && len(data.DataPoints) != want {
					t.Errorf("%s has %d points, want %d", m.Name, len(data.DataPoints), want)
				}
			case metricdata.Gauge[int64]:
				if partition, _ := data.DataPoints[0].Attributes.Value("awsretry.partition"); !strings.HasPrefix(partition.AsString(), ddbPartition) {
					t.Errorf("%s is of %q", m.Name, partition.AsString())
				}
			}
		}
		if got := strings.Join(names, " "); got != "client.call.attempts client.call.errors client.call.attempt_duration "+
			"awsretry.delay awsretry.tokens awsretry.token_capacity awsretry.call.attempts" {
			t.Error(got)
		}
	})
}
