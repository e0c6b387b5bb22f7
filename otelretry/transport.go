// Package otelretry shows an awsretry.Transport to OpenTelemetry: metrics of its attempts by the names and units of the AWS
// SDKs, gauges of its buckets, and on the spans of its attempts the count of resends.
package otelretry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"

	"example.com/awsretry"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
)

const scope = "example.com/awsretry/otelretry"

// A Transport is an awsretry.Transport that records metrics. [NewTransport] makes one; the zero Transport is not usable.
// It is safe for concurrent use.
//
// Attempts and buckets are recorded for every request that the inner Transport sends; refusals only for those that come in
// through this one, because a request that is refused before its first attempt shows nowhere else.
type Transport struct {
	*awsretry.Transport

	instruments
	series *seriesTable
	gauges metric.Registration

	first    sync.Once    // the first request
	observer uintptr      // the code of the inner Transport's Observe that install made last
	turn     atomic.Int32 // how often install made one
}

// NewTransport makes t record its metrics with meters, or with the global MeterProvider where meters is nil, and
// returns the http.RoundTripper to use in its place. An Observe that t has already, or is given before the first request, is called
// after the recording.
//
// The attributes, such as the name of the service, are set on every measurement, and go before those of this package. Give
// them where a MeterProvider has more than one Transport: the gauges of two that share a partition's name are one otherwise.
//
// t must not be nil, nor have sent a request yet; else, or where an instrument cannot be made, NewTransport returns an error
// and leaves t as it is.
func NewTransport(t *awsretry.Transport, meters metric.MeterProvider, attributes ...attribute.KeyValue) (*Transport, error) {
	if t == nil {
		return nil, errors.New("otelretry: the Transport is nil; it must be one to record metrics of")
	}
	for partition := range t.Partitions() {
		return nil, fmt.Errorf("otelretry: the Transport has sent a request to %q; it must be new, because it reads Observe with its first request",
			partition)
	}
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	meter := meters.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))
	in, err := newInstruments(meter)
	if err != nil {
		return nil, fmt.Errorf("otelretry: making the instruments: %w", err)
	}
	rt := &Transport{Transport: t, instruments: in, series: newSeriesTable(attributes)}
	rt.gauges, err = meter.RegisterCallback(rt.observeState, in.tokens, in.sendRate, in.measuredRate, in.waiting, in.expectedWait)
	if err != nil {
		return nil, fmt.Errorf("otelretry: registering the gauges: %w", err)
	}
	rt.install()
	return rt, nil
}

// install makes the inner Transport record its attempts before it calls the Observe that it has now.
func (t *Transport) install() {
	next, turn := t.Observe, t.turn.Add(1)
	t.Observe = func(a awsretry.Attempt) {
		if t.turn.Load() == turn { // else one that was installed later has recorded it
			t.recordAttempt(a)
		}
		if next != nil {
			next(a)
		}
	}
	t.observer = reflect.ValueOf(t.Observe).Pointer()
}

// reinstall runs before the first request, which reads Observe: it may have been set since NewTransport.
func (t *Transport) reinstall() {
	if reflect.ValueOf(t.Observe).Pointer() == t.observer {
		return
	}
	for range t.Partitions() {
		return // a request went to the inner Transport, which reads Observe no more
	}
	t.install()
}

// RoundTrip implements http.RoundTripper: it is the inner Transport's.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.first.Do(t.reinstall)
	resp, err := t.Transport.RoundTrip(req)
	switch stop := stopOf(resp, err); stop {
	case "", awsretry.StopSuccess, awsretry.StopPermanent:
	default:
		t.refusals.Add(req.Context(), 1, t.series.of(refusalKey(req, stop)).add...)
	}
	return resp, err
}

// stopOf is why no further attempt was made; "" where that says itself.
func stopOf(resp *http.Response, err error) awsretry.Stop {
	if err == nil {
		record, _ := awsretry.Outcome(resp)
		return record.Stop
	}
	var failure *awsretry.Error
	if !errors.As(err, &failure) {
		return ""
	}
	return failure.Stop
}

// Unregister ends the gauges. As long as they last, the MeterProvider holds the Transport in memory. The other metrics
// go on.
func (t *Transport) Unregister() error { return t.gauges.Unregister() }

// recordAttempt is the inner Transport's Observe.
func (t *Transport) recordAttempt(a awsretry.Attempt) {
	ctx := a.Request.Context()
	s := t.series.of(attemptKey(&a))
	t.attempts.Add(ctx, 1, s.add...)
	t.duration.Record(ctx, a.Elapsed.Seconds(), s.record...)
	if a.Class != awsretry.Success {
		t.errors.Add(ctx, 1, s.add...)
	}
}

// observeState is the gauges' callback. What a mode does not have is not there: a 0 would be read as an empty bucket, or as
// a rate that lets nothing pass.
func (t *Transport) observeState(_ context.Context, o metric.Observer) error {
	for name, state := range t.Partitions() {
		partition := partitionKey.String(utf8(name))
		set := metric.WithAttributeSet(attribute.NewSet(append([]attribute.KeyValue{partition}, t.series.always...)...))
		if state.Tokens != math.MaxInt {
			o.ObserveInt64(t.tokens, int64(state.Tokens), set)
		}
		if t.Mode != awsretry.Adaptive {
			continue
		}
		o.ObserveFloat64(t.measuredRate, state.MeasuredRate, set)
		o.ObserveInt64(t.waiting, int64(state.Waiting), set)
		o.ObserveFloat64(t.expectedWait, state.ExpectedWait.Seconds(), set)
		if state.Limited {
			o.ObserveFloat64(t.sendRate, state.SendRate, set)
		}
	}
	return nil
}

// instruments are those of the README's table.
type instruments struct {
	attempts, errors, refusals           metric.Int64Counter
	duration                             metric.Float64Histogram
	tokens, waiting                      metric.Int64ObservableGauge
	sendRate, measuredRate, expectedWait metric.Float64ObservableGauge
}

// newInstruments makes the instruments. The first three have the names and units of the AWS SDKs', as the AWS SDK for Go v2's
// package aws/retry has them, the duration the bounds of OpenTelemetry's HTTP metrics.
func newInstruments(meter metric.Meter) (in instruments, err error) {
	faults := make([]error, 9)
	in.attempts, faults[0] = meter.Int64Counter("client.call.attempts", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts that were sent, the first of each request and its retries."))
	in.errors, faults[1] = meter.Int64Counter("client.call.errors", metric.WithUnit("{error}"),
		metric.WithDescription("Attempts that failed."))
	in.duration, faults[2] = meter.Float64Histogram("client.call.attempt_duration", metric.WithUnit("s"),
		metric.WithDescription("The time from the sending of an attempt until its answer was classified."),
		metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10))
	in.refusals, faults[3] = meter.Int64Counter("awsretry.refusals", metric.WithUnit("{refusal}"),
		metric.WithDescription("Requests that were not sent, or not sent again after a failure that a retry may mend, by the reason."))
	in.tokens, faults[4] = meter.Int64ObservableGauge("awsretry.tokens", metric.WithUnit("{token}"),
		metric.WithDescription("Tokens in the partition's retry token bucket."))
	in.sendRate, faults[5] = meter.Float64ObservableGauge("awsretry.send_rate", metric.WithUnit("{request}/s"),
		metric.WithDescription("The rate to which adaptive mode holds the partition's requests, once it was throttled."))
	in.measuredRate, faults[6] = meter.Float64ObservableGauge("awsretry.measured_rate", metric.WithUnit("{response}/s"),
		metric.WithDescription("The rate of the partition's answers, as adaptive mode measures it."))
	in.waiting, faults[7] = meter.Int64ObservableGauge("awsretry.waiting", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that wait in the partition's line for a send token of adaptive mode."))
	in.expectedWait, faults[8] = meter.Float64ObservableGauge("awsretry.expected_wait", metric.WithUnit("s"),
		metric.WithDescription("How long a request that joined that line now would wait, at the present send rate."))
	return in, errors.Join(faults...)
}
