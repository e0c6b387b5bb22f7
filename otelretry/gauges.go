package otelretry

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"example.com/awsretry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Buckets have a state for each partition, as an awsretry.Transport and a Retryer
// of package awssdk do.
type Buckets interface {
	Partitions() iter.Seq2[string, awsretry.State]
}

// Watch shows the buckets in gauges until Unregister is called on the returned
// Registration. Until then, the MeterProvider keeps b in memory. If a MeterProvider
// watches several Buckets, their Recorders need different attributes: otherwise
// partitions with the same name share their gauges. Watch returns an error if b is
// nil or the gauges cannot be registered.
func (r *Recorder) Watch(b Buckets) (metric.Registration, error) {
	if b == nil {
		return nil, errors.New("otelretry: the Buckets are nil; they must be those to show")
	}
	w := &watch{Recorder: r, buckets: b}
	if t, ok := b.(*awsretry.Transport); ok {
		w.transport = t
	}
	registration, err := r.meter.RegisterCallback(w.observe, r.gauges()...)
	if err != nil {
		return nil, fmt.Errorf("otelretry: registering the gauges: %w", err)
	}
	return registration, nil
}

// A watch observes the gauges of some Buckets.
type watch struct {
	*Recorder
	buckets   Buckets
	transport *awsretry.Transport // nil if the settings are not known
}

// observe is the callback of the gauges. It omits those that do not apply to the
// settings: a 0 would look like an empty bucket or a rate of zero.
func (w *watch) observe(_ context.Context, o metric.Observer) error {
	limits := 0
	for name, state := range w.buckets.Partitions() {
		attrs := w.series.ofPartition(name)
		set := metric.WithAttributeSet(attribute.NewSet(attrs...))
		if state.Tokens != math.MaxInt {
			o.ObserveInt64(w.tokens, int64(state.Tokens), set)
			o.ObserveInt64(w.capacity, int64(state.Capacity), set)
		}
		if w.shared(&state) {
			w.observeFleet(o, state, set)
		}
		if w.waits(&state) {
			o.ObserveInt64(w.waiting, int64(state.Waiting), set)
			o.ObserveFloat64(w.expectedWait, state.ExpectedWait.Seconds(), set)
		}
		if w.holdsBack(&state) {
			o.ObserveFloat64(w.retryAfter, state.RetryAfter.Seconds(), set)
		}
		if w.paces(&state) {
			o.ObserveFloat64(w.measuredRate, state.MeasuredRate, set)
		}
		if state.Limited {
			o.ObserveFloat64(w.sendRate, state.SendRate, set)
		}
		for _, limit := range state.Limits {
			if limits < maxLimitSeries && w.series.shows(limit.Name) {
				limits++
				w.observeLimit(o, limit, attrs)
			}
		}
	}
	return nil
}

// These report whether the settings have what a gauge shows. Where they are not
// known, the state tells.

func (w *watch) shared(s *awsretry.State) bool {
	return s.Fleet.Members > 0 || w.transport != nil && w.transport.Shared != nil
}

func (w *watch) paces(s *awsretry.State) bool {
	return s.Limited || s.MeasuredRate > 0 || w.transport != nil && w.transport.Mode == awsretry.Adaptive
}

func (w *watch) holdsBack(s *awsretry.State) bool {
	return s.RetryAfter > 0 || w.transport != nil && w.transport.ShareRetryAfter
}

func (w *watch) waits(s *awsretry.State) bool {
	return s.Waiting > 0 || s.ExpectedWait > 0 || w.paces(s) || w.holdsBack(s)
}

// observeLimit observes a limit that the service announced. attrs are those of
// its partition.
func (w *watch) observeLimit(o metric.Observer, limit awsretry.Limit, attrs []attribute.KeyValue) {
	attrs = append([]attribute.KeyValue{limitKey.String(utf8(limit.Name))}, attrs...)
	set := metric.WithAttributeSet(attribute.NewSet(attrs...))
	o.ObserveFloat64(w.limitRemaining, limit.Remaining, set)
	if limit.Quota > 0 {
		o.ObserveFloat64(w.limitQuota, limit.Quota, set)
	}
}

// observeFleet observes the buckets that processes share.
func (w *watch) observeFleet(o metric.Observer, state awsretry.State, set metric.ObserveOption) {
	leased := int64(0)
	if state.Fleet.Leased || state.Fleet.Idle {
		leased = 1
	}
	o.ObserveInt64(w.leased, leased, set)
	o.ObserveInt64(w.members, int64(state.Fleet.Members), set)
	if state.Fleet.Members > 0 && state.Tokens != math.MaxInt {
		o.ObserveInt64(w.fleetTokens, int64(state.Fleet.Tokens), set)
	}
	if state.Fleet.Rate > 0 {
		o.ObserveFloat64(w.fleetRate, state.Fleet.Rate, set)
	}
}
