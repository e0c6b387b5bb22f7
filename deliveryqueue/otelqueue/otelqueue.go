// Package otelqueue records OpenTelemetry metrics of a deliveryqueue.Queue: what
// waits, for how long, for which endpoints, and how attempts and deliveries end.
package otelqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"example.com/awsretry/deliveryqueue"
)

const scope = "example.com/awsretry/deliveryqueue/otelqueue"

// The attributes of the metrics.
const (
	stateKey    = attribute.Key("awsretry.queue.state")
	reasonKey   = attribute.Key("awsretry.queue.reason")
	endpointKey = attribute.Key("awsretry.queue.endpoint")
)

// MaxEndpoints is how many endpoints have their own series: those with the most
// deliveries that wait, are running or are dead. All others share the endpoint
// "other", so that the number of series is bounded.
const MaxEndpoints = 100

const other = "other"

// A Recorder records metrics of a queue. It is safe for concurrent use. The zero
// value is not usable; call New.
type Recorder struct {
	meter      metric.Meter
	attempts   metric.Int64Counter
	took       metric.Float64Histogram
	outcomes   metric.Int64Counter
	lasted     metric.Float64Histogram
	deliveries metric.Int64ObservableGauge
	oldest     metric.Float64ObservableGauge
	endpoints  metric.Int64ObservableGauge
	lag        metric.Float64ObservableGauge
}

// New returns a Recorder that uses meters, or the global MeterProvider if meters is
// nil. It returns an error if an instrument cannot be created.
func New(meters metric.MeterProvider) (*Recorder, error) {
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	r := &Recorder{meter: meters.Meter(scope)}
	var faults [8]error
	r.attempts, faults[0] = r.meter.Int64Counter("awsretry.queue.attempts", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts of deliveries, by what became of the delivery."))
	r.outcomes, faults[4] = r.meter.Int64Counter("awsretry.queue.outcomes", metric.WithUnit("{delivery}"),
		metric.WithDescription("Deliveries that ended with an attempt."))
	r.took, faults[5] = r.meter.Float64Histogram("awsretry.queue.attempt.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of an attempt."), metric.WithExplicitBucketBoundaries(seconds[:12]...))
	r.lasted, faults[6] = r.meter.Float64Histogram("awsretry.queue.delivery.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the beginning to the end of a delivery."), metric.WithExplicitBucketBoundaries(seconds...))
	r.lag, faults[7] = r.meter.Float64ObservableGauge("awsretry.queue.sweep.lag", metric.WithUnit("s"),
		metric.WithDescription("How long ago this process made due retries available."))
	r.deliveries, faults[1] = r.meter.Int64ObservableGauge("awsretry.queue.deliveries", metric.WithUnit("{delivery}"),
		metric.WithDescription("Deliveries in the store."))
	r.oldest, faults[2] = r.meter.Float64ObservableGauge("awsretry.queue.oldest", metric.WithUnit("s"),
		metric.WithDescription("How long an attempt of a delivery has been due."))
	r.endpoints, faults[3] = r.meter.Int64ObservableGauge("awsretry.queue.endpoints", metric.WithUnit("{endpoint}"),
		metric.WithDescription("Endpoints that are failing, disabled or paused."))
	if err := errors.Join(faults[:]...); err != nil {
		return nil, fmt.Errorf("otelqueue: making the instruments: %w", err)
	}
	return r, nil
}

// seconds has the buckets of the histograms, up to three days. An attempt takes a
// minute at most, unless Config.AttemptTimeout is longer.
var seconds = []float64{
	.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300, 1800, 3600, 6 * 3600, 24 * 3600, 72 * 3600,
}

// Outcome records an attempt and, if it was the last one, the delivery. It is for the
// OnOutcome of a deliveryqueue.Config.
func (r *Recorder) Outcome(d deliveryqueue.Delivery) {
	ctx, attrs := context.Background(), []attribute.KeyValue{stateKey.String(string(d.State))}
	state := metric.WithAttributes(attrs...)
	if d.Reason != "" {
		attrs = append(attrs, reasonKey.String(d.Reason))
	}
	all := metric.WithAttributes(attrs...)
	r.attempts.Add(ctx, 1, all)
	if n := len(d.Last); n > 0 {
		r.took.Record(ctx, d.Last[n-1].Elapsed.Seconds(), state)
	}
	if d.State != deliveryqueue.Waiting {
		r.outcomes.Add(ctx, 1, all)
		r.lasted.Record(ctx, max(d.Ended.Sub(d.Enqueued).Seconds(), 0), state)
	}
}

// Watch shows the contents of the store in gauges until Unregister is called on the
// returned Registration. Call Unregister before the queue is closed. Each
// collection of the metrics calls Queue.Endpoints, so watch a store in only one
// process, and collect every 10 s or less often.
func (r *Recorder) Watch(q *deliveryqueue.Queue) (metric.Registration, error) {
	if q == nil {
		return nil, errors.New("otelqueue: the Queue is nil; it must be the one to show")
	}
	registration, err := r.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		if at := q.Swept(); !at.IsZero() { // also if the store fails
			o.ObserveFloat64(r.lag, time.Since(at).Seconds())
		}
		all, err := q.Endpoints(ctx)
		if err != nil {
			return err
		}
		r.observe(o, all, time.Now())
		return nil
	}, r.deliveries, r.oldest, r.endpoints, r.lag)
	if err != nil {
		return nil, fmt.Errorf("otelqueue: registering the gauges: %w", err)
	}
	return registration, nil
}

func (r *Recorder) observe(o metric.Observer, all []deliveryqueue.Endpoint, now time.Time) {
	var failing, disabled, paused int64
	for _, e := range all {
		for count, since := range map[*int64]time.Time{&failing: e.Failing, &disabled: e.Disabled, &paused: e.Paused} {
			if !since.IsZero() {
				*count++
			}
		}
	}
	for state, n := range map[string]int64{"failing": failing, "disabled": disabled, "paused": paused} {
		o.ObserveInt64(r.endpoints, n, metric.WithAttributes(stateKey.String(state)))
	}
	for _, e := range bounded(all) {
		for state, n := range map[deliveryqueue.State]int{
			deliveryqueue.Waiting: e.Waiting, deliveryqueue.Running: e.Running, deliveryqueue.Dead: e.Dead,
		} {
			o.ObserveInt64(r.deliveries, int64(n),
				metric.WithAttributes(endpointKey.String(e.URL), stateKey.String(string(state))))
		}
		age := 0.0
		if !e.Due.IsZero() {
			age = max(now.Sub(e.Due).Seconds(), 0)
		}
		o.ObserveFloat64(r.oldest, age, metric.WithAttributes(endpointKey.String(e.URL)))
	}
}

// bounded returns the endpoints with the most deliveries, and the sum of the
// others.
func bounded(all []deliveryqueue.Endpoint) []deliveryqueue.Endpoint {
	if len(all) <= MaxEndpoints {
		return all
	}
	size := func(e deliveryqueue.Endpoint) int { return e.Waiting + e.Running + e.Dead }
	slices.SortStableFunc(all, func(a, b deliveryqueue.Endpoint) int { return cmp.Compare(size(b), size(a)) })
	rest := deliveryqueue.Endpoint{URL: other}
	for _, e := range all[MaxEndpoints:] {
		rest.Waiting += e.Waiting
		rest.Running += e.Running
		rest.Dead += e.Dead
		if !e.Due.IsZero() && (rest.Due.IsZero() || e.Due.Before(rest.Due)) {
			rest.Due = e.Due
		}
	}
	return append(all[:MaxEndpoints:MaxEndpoints], rest)
}
