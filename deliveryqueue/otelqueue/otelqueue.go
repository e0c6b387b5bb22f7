// Package otelqueue records OpenTelemetry metrics of a deliveryqueue.Queue: what
// waits, for how long, for which endpoints, and how deliveries end.
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
	outcomes   metric.Int64Counter
	deliveries metric.Int64ObservableGauge
	oldest     metric.Float64ObservableGauge
	endpoints  metric.Int64ObservableGauge
}

// New returns a Recorder that uses meters, or the global MeterProvider if meters is
// nil. It returns an error if an instrument cannot be created.
func New(meters metric.MeterProvider) (*Recorder, error) {
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	r := &Recorder{meter: meters.Meter(scope)}
	var faults [4]error
	r.outcomes, faults[0] = r.meter.Int64Counter("awsretry.queue.outcomes", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts of deliveries, by what became of the delivery."))
	r.deliveries, faults[1] = r.meter.Int64ObservableGauge("awsretry.queue.deliveries", metric.WithUnit("{delivery}"),
		metric.WithDescription("Deliveries in the store."))
	r.oldest, faults[2] = r.meter.Float64ObservableGauge("awsretry.queue.oldest", metric.WithUnit("s"),
		metric.WithDescription("How long ago the oldest delivery that waits was enqueued."))
	r.endpoints, faults[3] = r.meter.Int64ObservableGauge("awsretry.queue.endpoints", metric.WithUnit("{endpoint}"),
		metric.WithDescription("Endpoints that are failing, disabled or paused."))
	if err := errors.Join(faults[:]...); err != nil {
		return nil, fmt.Errorf("otelqueue: making the instruments: %w", err)
	}
	return r, nil
}

// Outcome counts the state of a delivery after an attempt. It is for the OnOutcome
// of a deliveryqueue.Config.
func (r *Recorder) Outcome(d deliveryqueue.Delivery) {
	attrs := []attribute.KeyValue{stateKey.String(string(d.State))}
	if d.Reason != "" {
		attrs = append(attrs, reasonKey.String(d.Reason))
	}
	r.outcomes.Add(context.Background(), 1, metric.WithAttributes(attrs...))
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
		all, err := q.Endpoints(ctx)
		if err != nil {
			return err
		}
		r.observe(o, all, time.Now())
		return nil
	}, r.deliveries, r.oldest, r.endpoints)
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
		if !e.Oldest.IsZero() {
			age = max(now.Sub(e.Oldest).Seconds(), 0)
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
		if !e.Oldest.IsZero() && (rest.Oldest.IsZero() || e.Oldest.Before(rest.Oldest)) {
			rest.Oldest = e.Oldest
		}
	}
	return append(all[:MaxEndpoints:MaxEndpoints], rest)
}
