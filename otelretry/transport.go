// Package otelretry reports an awsretry.Transport to OpenTelemetry: metrics of
// its calls and attempts with the names and units of the AWS SDKs, gauges of its
// buckets, events on the callers' spans, and the resend count on the spans of the
// attempts.
package otelretry

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.com/awsretry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// A Transport is an awsretry.Transport that records metrics. It is safe for
// concurrent use. The zero value is not usable; call [NewTransport].
//
// It records the attempts, refusals and buckets of every request that the inner
// Transport sends. It records the duration of a call only if the request is sent
// through this Transport.
type Transport struct {
	*awsretry.Transport

	recorder *Recorder
	gauges   metric.Registration

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
// NewTransport returns an error and does not change t if t is nil, has sent a
// request or records its metrics already, or if an instrument cannot be made.
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
	if t.Observe != nil && strings.HasPrefix(runtime.FuncForPC(pointer(t.Observe)).Name(), scope+".(*Transport).") {
		return nil, errors.New("otelretry: the Transport records its metrics already; its attempts would count twice")
	}
	recorder, err := NewRecorder(meters, attributes...)
	if err != nil {
		return nil, err
	}
	rt := &Transport{Transport: t, recorder: recorder}
	if rt.gauges, err = recorder.Watch(t); err != nil {
		return nil, err
	}
	rt.install()
	return rt, nil
}

// pointer identifies a function, but not what it has captured.
func pointer(f func(awsretry.Attempt)) uintptr { return reflect.ValueOf(f).Pointer() }

// install sets an Observe on the inner Transport that records each attempt, then
// calls the current Observe.
func (t *Transport) install() {
	t.Observe = t.observing(t.Observe)
	t.observer = pointer(t.Observe)
}

func (t *Transport) observing(next func(awsretry.Attempt)) func(awsretry.Attempt) {
	turn := t.turn.Add(1)
	return func(a awsretry.Attempt) {
		if t.turn.Load() == turn { // otherwise a later Observe of ours has recorded it
			t.recorder.Observe(a)
		}
		if next != nil {
			next(a)
		}
	}
}

// reinstall runs before the first request, which reads Observe, in case Observe
// was set after NewTransport.
func (t *Transport) reinstall() {
	if pointer(t.Observe) == t.observer {
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
	start := time.Now()
	resp, err := t.Transport.RoundTrip(req)
	took := time.Since(start)
	key := callKey(req, stopOf(resp, err))
	t.recorder.callDuration.Record(req.Context(), took.Seconds(), t.recorder.series.of(key).record...)
	return resp, err
}

// stopOf returns why a call ended.
func stopOf(resp *http.Response, err error) awsretry.Stop {
	if err == nil {
		if record, ok := awsretry.Outcome(resp); ok {
			return record.Stop
		}
		return awsretry.StopSuccess
	}
	var failure *awsretry.Error
	if errors.As(err, &failure) {
		return failure.Stop
	}
	return awsretry.StopPermanent
}

// Unregister removes the gauges, for which the MeterProvider keeps the Transport
// in memory. The other metrics continue.
func (t *Transport) Unregister() error { return t.gauges.Unregister() }
