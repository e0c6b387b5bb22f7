// Package record is how an attempt is written down: the attributes of a line of
// awsretry.LogTo and package retrylog, and the names that their readers use.
package record

import (
	"context"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"time"
)

// A Record is an attempt without secrets and control characters. A field that is
// zero is left out, except for those without omitempty.
type Record struct {
	Method        string        `json:"method,omitempty"`
	URL           string        `json:"url,omitempty"`
	Partition     string        `json:"partition,omitempty"`
	Call          string        `json:"call,omitempty"` // the same for the attempts of one call
	OuterRetries  string        `json:"outer_retries,omitempty"`
	Attempt       int           `json:"attempt"` // 0: refused
	MaxAttempts   int           `json:"max_attempts,omitempty"`
	Class         string        `json:"class"`
	Offset        int64         `json:"offset,omitempty"`
	Status        int           `json:"status,omitempty"` // 0: no response
	RequestID     string        `json:"request_id,omitempty"`
	Code          string        `json:"code,omitempty"`
	Error         string        `json:"error,omitempty"`
	MaybeExecuted bool          `json:"maybe_executed,omitempty"`
	Elapsed       *Milliseconds `json:"elapsed_ms,omitempty"` // nil: not known
	Waited        Milliseconds  `json:"waited_ms,omitempty"`
	RetryAfter    Milliseconds  `json:"retry_after_ms,omitempty"`
	Delay         *Milliseconds `json:"delay_ms,omitempty"` // nil: no attempt follows
	Stop          string        `json:"stop,omitempty"`
	Late          Milliseconds  `json:"late_ms,omitempty"`
	Setting       string        `json:"setting,omitempty"`
	Limits        string        `json:"limits,omitempty"`

	Retryable bool `json:"-"` // its class is
}

// Milliseconds has three decimals.
type Milliseconds float64

// Span returns d in milliseconds.
func Span(d time.Duration) Milliseconds { return Milliseconds(math.Round(float64(d)/1e3) / 1e3) }

// Options are those of the record of an attempt.
type Options struct {
	OmitPaths bool // of URLs
}

// Event returns the level and the message of the attempt's line.
func (r Record) Event() (slog.Level, string) {
	switch {
	case r.Class == "success":
		return slog.LevelDebug, "succeeded"
	case r.Stop == "":
		return slog.LevelDebug, "retrying"
	case r.Stop == "canceled":
		return slog.LevelDebug, "canceled"
	case r.Attempt == 0:
		return slog.LevelWarn, "refused"
	case r.Retryable:
		return slog.LevelWarn, "gave up"
	case r.Status == 0 || r.Status >= 500:
		return slog.LevelWarn, "failed"
	}
	return slog.LevelDebug, "failed"
}

// Log logs the attempt's line, which ends with the attributes in more.
func (r Record) Log(ctx context.Context, to *slog.Logger, more ...slog.Attr) {
	level, message := r.Event()
	if to.Enabled(ctx, level) {
		to.LogAttrs(ctx, level, message, append(r.attrs(), more...)...)
	}
}

var fields = reflect.VisibleFields(reflect.TypeFor[Record]())

func (r Record) attrs() []slog.Attr {
	attrs := make([]slog.Attr, 0, len(fields)+1)
	of := reflect.ValueOf(r)
	for _, field := range fields {
		name, omit, _ := strings.Cut(field.Tag.Get("json"), ",")
		value := of.FieldByIndex(field.Index)
		if name == "-" || omit != "" && value.IsZero() {
			continue
		}
		attrs = append(attrs, slog.Attr{Key: name, Value: valueOf(reflect.Indirect(value))})
	}
	return attrs
}

func valueOf(v reflect.Value) slog.Value {
	switch v.Kind() {
	case reflect.String:
		return slog.StringValue(v.String())
	case reflect.Bool:
		return slog.BoolValue(v.Bool())
	case reflect.Float64:
		return slog.Float64Value(v.Float())
	}
	return slog.Int64Value(v.Int())
}
