// Package record is how an attempt is written down: the line of awsretry.LogTo and
// package retrylog.
package record

import (
	"log/slog"
	"math"
	"time"
)

// A Record is the line of an attempt, without secrets and control characters.
type Record struct {
	Level   slog.Level
	Message string
	Attrs   []slog.Attr
}

// Options are those of the record of an attempt.
type Options struct {
	OmitPaths bool // of URLs
}

// Add adds attributes.
func (r *Record) Add(attrs ...slog.Attr) { r.Attrs = append(r.Attrs, attrs...) }

// Text adds a text, unless it is empty.
func (r *Record) Text(key, text string) {
	if text != "" {
		r.Add(slog.String(key, text))
	}
}

// Number adds a number, unless it is 0.
func (r *Record) Number(key string, n int64) {
	if n != 0 {
		r.Add(slog.Int64(key, n))
	}
}

// Span adds a time, unless it is 0.
func (r *Record) Span(key string, d time.Duration) {
	if a := Span(key, d); a.Value.Float64() != 0 {
		r.Add(a)
	}
}

// Span returns an attribute with d in milliseconds, which has three decimals.
func Span(key string, d time.Duration) slog.Attr {
	return slog.Float64(key, math.Round(float64(d)/1e3)/1e3)
}
