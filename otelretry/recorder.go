package otelretry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/awsretry"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"
)

const scope = "example.com/awsretry/otelretry"

// A Recorder records attempts, for programs that have no awsretry.Transport to
// pass to [NewTransport], such as those with the Retryer of package awssdk: its
// Observe is a Config.Observe, and Watch shows the Retryer's buckets. It is safe
// for concurrent use. The zero value is not usable; call [NewRecorder].
type Recorder struct {
	instruments
	meter  metric.Meter
	series *seriesTable
}

// NewRecorder returns a Recorder of metrics with meters, or with the global
// MeterProvider if meters is nil. The attributes are set on every measurement and
// take precedence over those of this package. It returns an error if an
// instrument cannot be made.
func NewRecorder(meters metric.MeterProvider, attributes ...attribute.KeyValue) (*Recorder, error) {
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	meter := meters.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))
	in, err := newInstruments(meter)
	if err != nil {
		return nil, fmt.Errorf("otelretry: making the instruments: %w", err)
	}
	return &Recorder{instruments: in, meter: meter, series: newSeriesTable(attributes)}, nil
}

// Observe records an attempt, or a call that was refused. It adds the event
// "retrying" to the caller's span, or "gave up" if a failure is not retried.
func (r *Recorder) Observe(a awsretry.Attempt) {
	if a.Request == nil {
		return
	}
	ctx := a.Request.Context()
	refused := a.Number == 0 && a.Stop != awsretry.StopPermanent
	if a.Number > 0 {
		s := r.series.of(attemptKey(&a))
		r.attempts.Add(ctx, 1, s.add...)
		r.attemptDuration.Record(ctx, a.Elapsed.Seconds(), s.record...)
		if a.Class != awsretry.Success {
			r.errors.Add(ctx, 1, s.add...)
		}
		if a.Waited > 0 {
			r.wait.Record(ctx, a.Waited.Seconds(), r.series.of(waitKey(&a)).record...)
		}
		if a.Stop == "" {
			r.delay.Record(ctx, a.Delay.Seconds(), r.series.of(delayKey(&a)).record...)
		} else {
			r.callAttempts.Record(ctx, int64(a.Number), r.series.of(callKey(a.Request, a.Stop)).record...)
		}
		refused = a.Class.Retryable() && a.Stop != "" && a.Stop != awsretry.StopCanceled
	}
	if refused {
		r.refusals.Add(ctx, 1, r.series.of(refusalKey(&a)).add...)
	}
	if a.Stop == "" || refused {
		addEvent(trace.SpanFromContext(ctx), &a)
	}
}

func addEvent(span trace.Span, a *awsretry.Attempt) {
	if !span.IsRecording() {
		return
	}
	name, attrs := "retrying", []attribute.KeyValue{
		attribute.Int("awsretry.attempt", a.Number), classKey.String(a.Class.String()),
	}
	if a.Stop == "" {
		attrs = append(attrs, attribute.Float64("awsretry.delay", a.Delay.Seconds()))
	} else {
		name, attrs = "gave up", append(attrs, stopKey.String(string(a.Stop)))
	}
	if a.Response != nil {
		attrs = append(attrs, semconv.HTTPResponseStatusCode(a.Response.StatusCode))
	} else if a.Number > 0 {
		attrs = append(attrs, semconv.ErrorTypeKey.String(utf8(errorType(a))))
	}
	span.AddEvent(name, trace.WithAttributes(attrs...))
}

// RecordRenewal records a renewal of package fleet. It is a Config.OnRenewal.
func (r *Recorder) RecordRenewal(partition string, took time.Duration, err error) {
	var attrs []attribute.KeyValue
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		attrs = append(attrs, semconv.ErrorTypeKey.String("timeout"))
	case err != nil:
		attrs = append(attrs, semconv.ErrorTypeOther)
	}
	r.renewal.Record(context.Background(), took.Seconds(), metric.WithAttributes(append(attrs, r.series.always...)...))
}
