package otelretry

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// instruments are the instruments in the README's table.
type instruments struct {
	attempts, errors, refusals                       metric.Int64Counter
	attemptDuration, callDuration, delay, wait       metric.Float64Histogram
	renewal                                          metric.Float64Histogram
	callAttempts                                     metric.Int64Histogram
	tokens, capacity, waiting                        metric.Int64ObservableGauge
	leased, members, fleetTokens                     metric.Int64ObservableGauge
	sendRate, measuredRate, expectedWait, retryAfter metric.Float64ObservableGauge
	fleetRate, limitRemaining, limitQuota            metric.Float64ObservableGauge
}

// gauges returns those that a callback observes.
func (in *instruments) gauges() []metric.Observable {
	return []metric.Observable{
		in.tokens, in.capacity, in.waiting, in.leased, in.members, in.fleetTokens, in.sendRate, in.measuredRate,
		in.expectedWait, in.retryAfter, in.fleetRate, in.limitRemaining, in.limitQuota,
	}
}

// seconds are the bucket boundaries of OpenTelemetry's HTTP metrics, and pauses
// are for what may take as long as a Retry-After. A renewal takes a lease at most.
var (
	seconds = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	pauses  = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60}
	trips   = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 1}
	counts  = []float64{1, 2, 3, 4, 5, 10}
)

// A builder makes instruments, and collects the errors.
type builder struct {
	meter  metric.Meter
	faults []error
}

func made[T any](b *builder, instrument T, err error) T {
	b.faults = append(b.faults, err)
	return instrument
}

func (b *builder) counter(name, unit, about string) metric.Int64Counter {
	c, err := b.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
	return made(b, c, err)
}

func (b *builder) seconds(name, about string, bounds []float64) metric.Float64Histogram {
	h, err := b.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about),
		metric.WithExplicitBucketBoundaries(bounds...))
	return made(b, h, err)
}

func (b *builder) number(name, unit, about string) metric.Int64ObservableGauge {
	g, err := b.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(about))
	return made(b, g, err)
}

func (b *builder) value(name, unit, about string) metric.Float64ObservableGauge {
	g, err := b.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(about))
	return made(b, g, err)
}

// newInstruments makes the instruments. Those whose names begin with client.call
// have the names and units of package aws/retry of the AWS SDK for Go v2.
func newInstruments(meter metric.Meter) (instruments, error) {
	b := &builder{meter: meter}
	in := instruments{
		attempts: b.counter("client.call.attempts", "{attempt}",
			"Attempts that were sent: the first of each request, and retries."),
		errors: b.counter("client.call.errors", "{error}", "Attempts that failed."),
		attemptDuration: b.seconds("client.call.attempt_duration",
			"Time from sending an attempt until its outcome is classified.", seconds),
		callDuration: b.seconds("client.call.duration",
			"Time that the caller waits for the response or the error, with retries and delays.", pauses),
		refusals: b.counter("awsretry.refusals", "{refusal}",
			"Requests that were not sent, or not retried after a retryable failure, by the reason."),
		delay: b.seconds("awsretry.delay", "Delays before retries.", pauses),
		wait: b.seconds("awsretry.wait",
			"Waits of attempts for a send token, room in a limit, or the end of a shared Retry-After.", pauses),
		renewal: b.seconds("awsretry.renewal.duration", "Renewals of the lease of shared buckets.", trips),
		tokens:  b.number("awsretry.tokens", "{token}", "Tokens in the partition's retry token bucket."),
		capacity: b.number("awsretry.token_capacity", "{token}",
			"How many tokens the partition's retry token bucket holds."),
		waiting: b.number("awsretry.waiting", "{request}",
			"Requests that wait for a send token, room in a limit, or the end of a shared Retry-After."),
		expectedWait: b.value("awsretry.expected_wait", "s", "How long a request that comes now would wait."),
		retryAfter:   b.value("awsretry.retry_after", "s", "Time until the end of the shared Retry-After."),
		sendRate: b.value("awsretry.send_rate", "{request}/s",
			"The rate to which adaptive mode limits the partition's requests after throttling."),
		measuredRate: b.value("awsretry.measured_rate", "{response}/s",
			"The rate of the partition's responses, as adaptive mode measures it."),
		leased: b.number("awsretry.leased", "{lease}",
			"1 while the process has a lease of the partition's shared buckets or needs none, otherwise 0."),
		members: b.number("awsretry.members", "{process}", "Processes that share the partition's buckets."),
		fleetTokens: b.number("awsretry.fleet_tokens", "{token}",
			"Tokens in the retry token bucket of all these processes."),
		fleetRate: b.value("awsretry.fleet_rate", "{request}/s",
			"The rate to which adaptive mode limits the requests of all these processes."),
		limitRemaining: b.value("awsretry.limit.remaining", "{unit}",
			"What is left of a limit that the service announces, without what is in flight."),
		limitQuota: b.value("awsretry.limit.quota", "{unit}", "The quota of a limit that the service announces."),
	}
	h, err := meter.Int64Histogram("awsretry.call.attempts", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts of each call."), metric.WithExplicitBucketBoundaries(counts...))
	in.callAttempts = made(b, h, err)
	return in, errors.Join(b.faults...)
}
