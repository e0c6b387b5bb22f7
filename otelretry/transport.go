// Package otelretry reports an awsretry.Transport to OpenTelemetry: metrics of
// its attempts with the names and units of the AWS SDKs, gauges of its buckets,
// and the count of resends on the spans of its attempts.
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

// A Transport is an awsretry.Transport that records metrics. It is safe for
// concurrent use. The zero value is not usable; call [NewTransport].
//
// It records the attempts and buckets of every request that the inner Transport
// sends, and those that it refuses before their first attempt. Other refusals
// are recorded only for requests to this Transport.
type Transport struct {
	*awsretry.Transport

	instruments
	series *seriesTable
	gauges metric.Registration

	first    sync.Once    // runs reinstall
	observer uintptr      // identifies the Observe that install set
	turn     atomic.Int32 // number of calls of install
}

// NewTransport makes t record its metrics with meters, or with the global
// MeterProvider if meters is nil. It returns the http.RoundTripper to use in
// place of t. An Observe that is set before the first request is called after
// each attempt is recorded.
//
// The attributes, such as the name of the service, are set on every measurement
// and take precedence over those of this package. If a MeterProvider has more
// than one Transport, pass attributes that tell them apart: otherwise partitions
// with the same name share their gauges.
//
// NewTransport returns an error and does not change t if t is nil or has sent a
// request, or if an instrument cannot be made.
func NewTransport(
	t *awsretry.Transport, meters metric.MeterProvider, attributes ...attribute.KeyValue,
) (*Transport, error) {
	if t == nil {
		return nil, errors.New("otelretry: the Transport is nil; it must be one to record metrics of")
	}
	for partition := range t.Partitions() {
		return nil, fmt.Errorf("otelretry: the Transport has sent a request to %q; it must be new, "+
			"because it reads Observe with its first request", partition)
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
	rt.gauges, err = meter.RegisterCallback(rt.observeState,
		in.tokens, in.sendRate, in.measuredRate, in.waiting, in.expectedWait, in.leased, in.members, in.fleetTokens,
		in.fleetRate, in.limitRemaining, in.limitQuota)
	if err != nil {
		return nil, fmt.Errorf("otelretry: registering the gauges: %w", err)
	}
	rt.install()
	return rt, nil
}

// install sets an Observe on the inner Transport that records each attempt, then
// calls the current Observe.
func (t *Transport) install() {
	next, turn := t.Observe, t.turn.Add(1)
	t.Observe = func(a awsretry.Attempt) {
		if t.turn.Load() == turn { // otherwise a later Observe of ours has recorded it
			t.recordAttempt(a)
		}
		if next != nil {
			next(a)
		}
	}
	t.observer = reflect.ValueOf(t.Observe).Pointer()
}

// reinstall runs before the first request, which reads Observe, in case Observe
// was set after NewTransport.
func (t *Transport) reinstall() {
	if reflect.ValueOf(t.Observe).Pointer() == t.observer {
		return
	}
	for range t.Partitions() {
		return // too late: the inner Transport has sent a request, and has read Observe
	}
	t.install()
}

// RoundTrip implements http.RoundTripper. It calls that of the inner Transport.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.first.Do(t.reinstall)
	resp, err := t.Transport.RoundTrip(req)
	switch stop := stopOf(resp, err); stop {
	case "", awsretry.StopSuccess, awsretry.StopPermanent:
	default:
		t.recordRefusal(req, stop)
	}
	return resp, err
}

func (t *Transport) recordRefusal(req *http.Request, stop awsretry.Stop) {
	t.refusals.Add(req.Context(), 1, t.series.of(refusalKey(req, stop)).add...)
}

// stopOf returns why no further attempt was made, or "" if the response or error
// does not tell, or if Observe records the refusal.
func stopOf(resp *http.Response, err error) awsretry.Stop {
	if err == nil {
		record, _ := awsretry.Outcome(resp)
		return record.Stop
	}
	var failure *awsretry.Error
	if !errors.As(err, &failure) || failure.Attempts == 0 && failure.Stop != awsretry.StopCanceled {
		return ""
	}
	return failure.Stop
}

// Unregister removes the gauges, for which the MeterProvider keeps the Transport
// in memory. The other metrics continue.
func (t *Transport) Unregister() error { return t.gauges.Unregister() }

// recordAttempt is called by the inner Transport's Observe.
func (t *Transport) recordAttempt(a awsretry.Attempt) {
	if a.Number == 0 {
		if a.Stop != awsretry.StopPermanent {
			t.recordRefusal(a.Request, a.Stop)
		}
		return
	}
	ctx := a.Request.Context()
	s := t.series.of(attemptKey(&a))
	t.attempts.Add(ctx, 1, s.add...)
	t.duration.Record(ctx, a.Elapsed.Seconds(), s.record...)
	if a.Class != awsretry.Success {
		t.errors.Add(ctx, 1, s.add...)
	}
}

// observeState is the callback of the gauges. It omits those that do not apply to
// the mode: a 0 would look like an empty bucket or a rate of zero.
func (t *Transport) observeState(_ context.Context, o metric.Observer) error {
	limits := 0
	for name, state := range t.Partitions() {
		partition := partitionKey.String(utf8(name))
		attrs := append([]attribute.KeyValue{partition}, t.series.always...)
		set := metric.WithAttributeSet(attribute.NewSet(attrs...))
		if state.Tokens != math.MaxInt {
			o.ObserveInt64(t.tokens, int64(state.Tokens), set)
		}
		if t.Shared != nil {
			t.observeFleet(o, state, set)
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
		for _, limit := range state.Limits {
			if limits < maxLimitSeries && t.series.shows(limit.Name) {
				limits++
				t.observeLimit(o, limit, attrs)
			}
		}
	}
	return nil
}

// observeLimit observes a limit that the service announced. attrs are those of
// its partition.
func (t *Transport) observeLimit(o metric.Observer, limit awsretry.Limit, attrs []attribute.KeyValue) {
	attrs = append([]attribute.KeyValue{limitKey.String(utf8(limit.Name))}, attrs...)
	set := metric.WithAttributeSet(attribute.NewSet(attrs...))
	o.ObserveFloat64(t.limitRemaining, limit.Remaining, set)
	if limit.Quota > 0 {
		o.ObserveFloat64(t.limitQuota, limit.Quota, set)
	}
}

// observeFleet observes the buckets that processes share.
func (t *Transport) observeFleet(o metric.Observer, state awsretry.State, set metric.ObserveOption) {
	leased := int64(0)
	if state.Leased {
		leased = 1
	}
	o.ObserveInt64(t.leased, leased, set)
	o.ObserveInt64(t.members, int64(state.Members), set)
	if state.Members > 0 && state.Tokens != math.MaxInt {
		o.ObserveInt64(t.fleetTokens, int64(state.FleetTokens), set)
	}
	if state.FleetRate > 0 {
		o.ObserveFloat64(t.fleetRate, state.FleetRate, set)
	}
}
