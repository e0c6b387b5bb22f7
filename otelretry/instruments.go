package otelretry

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// instruments are the instruments in the README's table.
type instruments struct {
	attempts, errors, refusals                      metric.Int64Counter
	duration                                        metric.Float64Histogram
	tokens, waiting, leased, members, fleetTokens   metric.Int64ObservableGauge
	sendRate, measuredRate, expectedWait, fleetRate metric.Float64ObservableGauge
	limitRemaining, limitQuota                      metric.Float64ObservableGauge
}

// seconds are the bucket boundaries of OpenTelemetry's HTTP metrics.
var seconds = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}

// newInstruments makes the instruments. Those of attempts have the names and units
// of package aws/retry of the AWS SDK for Go v2.
func newInstruments(meter metric.Meter) (in instruments, err error) {
	faults := make([]error, 15)
	in.attempts, faults[0] = meter.Int64Counter("client.call.attempts", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts that were sent: the first of each request, and retries."))
	in.errors, faults[1] = meter.Int64Counter("client.call.errors", metric.WithUnit("{error}"),
		metric.WithDescription("Attempts that failed."))
	in.duration, faults[2] = meter.Float64Histogram("client.call.attempt_duration", metric.WithUnit("s"),
		metric.WithDescription("Time from sending an attempt until its outcome is classified."),
		metric.WithExplicitBucketBoundaries(seconds...))
	in.refusals, faults[3] = meter.Int64Counter("awsretry.refusals", metric.WithUnit("{refusal}"),
		metric.WithDescription("Requests that were not sent, or not retried after a retryable failure, by the reason."))
	in.tokens, faults[4] = meter.Int64ObservableGauge("awsretry.tokens", metric.WithUnit("{token}"),
		metric.WithDescription("Tokens in the partition's retry token bucket."))
	in.sendRate, faults[5] = meter.Float64ObservableGauge("awsretry.send_rate", metric.WithUnit("{request}/s"),
		metric.WithDescription("The rate to which adaptive mode limits the partition's requests after throttling."))
	in.measuredRate, faults[6] = meter.Float64ObservableGauge("awsretry.measured_rate", metric.WithUnit("{response}/s"),
		metric.WithDescription("The rate of the partition's responses, as adaptive mode measures it."))
	in.waiting, faults[7] = meter.Int64ObservableGauge("awsretry.waiting", metric.WithUnit("{request}"),
		metric.WithDescription("Requests in the partition's line for a send token of adaptive mode."))
	in.expectedWait, faults[8] = meter.Float64ObservableGauge("awsretry.expected_wait", metric.WithUnit("s"),
		metric.WithDescription("How long a request that joined that line now would wait."))
	in.leased, faults[9] = meter.Int64ObservableGauge("awsretry.leased", metric.WithUnit("1"),
		metric.WithDescription("1 while the process has a lease of the partition's shared buckets, otherwise 0."))
	in.members, faults[10] = meter.Int64ObservableGauge("awsretry.members", metric.WithUnit("{process}"),
		metric.WithDescription("Processes that share the partition's buckets."))
	in.fleetTokens, faults[12] = meter.Int64ObservableGauge("awsretry.fleet_tokens", metric.WithUnit("{token}"),
		metric.WithDescription("Tokens in the retry token bucket of all these processes."))
	in.fleetRate, faults[11] = meter.Float64ObservableGauge("awsretry.fleet_rate", metric.WithUnit("{request}/s"),
		metric.WithDescription("The rate to which adaptive mode limits the requests of all these processes."))
	in.limitRemaining, faults[13] = meter.Float64ObservableGauge("awsretry.limit.remaining", metric.WithUnit("{unit}"),
		metric.WithDescription("What is left of a limit that the service announces, without what is in flight."))
	in.limitQuota, faults[14] = meter.Float64ObservableGauge("awsretry.limit.quota", metric.WithUnit("{unit}"),
		metric.WithDescription("The quota of a limit that the service announces."))
	return in, errors.Join(faults...)
}
