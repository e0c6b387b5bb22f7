package otelretry

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"example.com/awsretry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
)

// Attributes that the OpenTelemetry semantic conventions have no name for. The
// others are the conventions' server.address, server.port, http.request.method,
// http.response.status_code and error.type.
const (
	classKey     = attribute.Key("awsretry.class")     // the String of an attempt's awsretry.Class
	retryKey     = attribute.Key("awsretry.retry")     // bool: whether the attempt is a retry
	stopKey      = attribute.Key("awsretry.stop")      // a refusal's awsretry.Stop
	limitKey     = attribute.Key("awsretry.limit")     // the name of a limit that a service announces
	partitionKey = attribute.Key("awsretry.partition") // whose buckets an attempt used or a gauge shows
)

// Limits of the sets of attributes that a Transport makes. Hosts, methods and
// statuses may come from untrusted input.
const (
	// maxSeries is the limit for a metric in OpenTelemetry's Metrics SDK
	// specification, "Cardinality limits". It includes the overflow.
	maxSeries = 2000

	// maxServerSeries limits the sets that name a server and partition. Later
	// sets have "_OTHER" instead.
	maxServerSeries = 1500

	// maxLimitSeries limits the limits that a gauge shows at once, and
	// maxLimitNames their names. The services choose these.
	maxLimitSeries = maxServerSeries
	maxLimitNames  = 50
)

// maxHost is longer than any DNS name.
const maxHost = 260

// other replaces values beyond a limit, as in the semantic conventions.
const other = "_OTHER"

// A key identifies a series. Unlike its attributes, it is cheap to make.
type key struct {
	scheme, host, method string

	// Of an attempt.
	partition string
	class     awsretry.Class
	retry     bool
	status    int    // 0 means no response
	errorType string // "" means a response

	stop awsretry.Stop // of a refusal; "" means an attempt
}

func requestKey(req *http.Request) key {
	k := key{method: method(req.Method)}
	if req.URL == nil {
		return k
	}
	if k.host = req.URL.Host; len(k.host) > maxHost {
		k.host = other
	} else if s := req.URL.Scheme; s == "http" || s == "https" {
		k.scheme = s
	}
	return k
}

func attemptKey(a *awsretry.Attempt) key {
	k := requestKey(a.Request)
	k.partition, k.class, k.retry = a.Partition, a.Class, a.Number > 1
	if a.Response != nil {
		k.status = a.Response.StatusCode
	} else {
		k.errorType = errorType(a)
	}
	return k
}

func refusalKey(req *http.Request, stop awsretry.Stop) key {
	k := requestKey(req)
	k.stop = stop
	return k
}

func method(m string) string {
	switch m {
	case "":
		return http.MethodGet
	case http.MethodConnect, http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPatch,
		http.MethodPost, http.MethodPut, http.MethodTrace:
		return m
	}
	return other
}

// errorType returns the error.type of an attempt without a response.
func errorType(a *awsretry.Attempt) string {
	var late interface{ Timeout() bool }
	switch {
	case a.Class == awsretry.Timeout, errors.As(a.Err, &late) && late.Timeout():
		return "timeout"
	case a.Stop == awsretry.StopCanceled:
		return "canceled"
	}
	return semconv.ErrorType(a.Err).Value.AsString()
}

// attributes returns the attributes of the measurements of k.
func (k *key) attributes() []attribute.KeyValue {
	attrs := append(make([]attribute.KeyValue, 0, 9), semconv.HTTPRequestMethodKey.String(k.method))
	server := url.URL{Host: k.host}
	switch name := server.Hostname(); name {
	case "":
	case other:
		attrs = append(attrs, semconv.ServerAddress(other))
	default:
		attrs = append(attrs, semconv.ServerAddress(strings.ToLower(utf8(name))))
	}
	if port := portOf(&server, k.scheme); port > 0 {
		attrs = append(attrs, semconv.ServerPort(port))
	}
	if k.stop != "" {
		return append(attrs, stopKey.String(string(k.stop)))
	}
	attrs = append(attrs,
		partitionKey.String(utf8(k.partition)), classKey.String(k.class.String()), retryKey.Bool(k.retry))
	errorType := k.errorType
	if k.status != 0 {
		attrs = append(attrs, semconv.HTTPResponseStatusCode(k.status))
		errorType = other // such as an error of Amazon S3 in a 200
		if k.status >= 400 {
			errorType = strconv.Itoa(k.status)
		}
	}
	if k.class != awsretry.Success {
		attrs = append(attrs, semconv.ErrorTypeKey.String(utf8(errorType)))
	}
	return attrs
}

// utf8 replaces invalid bytes, which would make the export of all metrics fail. A
// URL's host may contain some.
func utf8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// portOf returns the port of a server, or 0 if it is unknown.
func portOf(server *url.URL, scheme string) int {
	port, err := strconv.ParseUint(server.Port(), 10, 16)
	switch {
	case err == nil:
		return int(port)
	case scheme == "https":
		return 443
	case scheme == "http":
		return 80
	}
	return 0
}

// A series is a set of attributes as options of a measurement. It is made once,
// because making it costs more than the measurement.
type series struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func newSeries(attrs ...attribute.KeyValue) *series {
	set := metric.WithAttributeSet(attribute.NewSet(attrs...))
	return &series{[]metric.AddOption{set}, []metric.RecordOption{set}}
}

// A seriesTable holds the series of all measurements so far, up to maxSeries.
type seriesTable struct {
	always   []attribute.KeyValue // the user's
	overflow *series              // for measurements beyond maxSeries

	mu     sync.RWMutex // guards known and limits
	known  map[key]*series
	limits map[string]bool // the names of limits that gauges show
}

func newSeriesTable(always []attribute.KeyValue) *seriesTable {
	always = slices.Clone(always)
	return &seriesTable{
		always:   always,
		overflow: newSeries(append([]attribute.KeyValue{attribute.Bool("otel.metric.overflow", true)}, always...)...),
		known:    make(map[key]*series),
		limits:   make(map[string]bool),
	}
}

func (t *seriesTable) of(k key) *series {
	t.mu.RLock()
	s := t.known[k]
	t.mu.RUnlock()
	if s != nil {
		return s
	}
	return t.add(k)
}

// add makes the series of k, or returns the one to use instead.
func (t *seriesTable) add(k key) *series {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.known[k]; s != nil {
		return s // another goroutine was faster
	}
	if len(t.known) >= maxServerSeries {
		k.scheme, k.host = "", other
		if k.stop == "" {
			k.partition = other
		}
		if s := t.known[k]; s != nil {
			return s
		}
	}
	if len(t.known) >= maxSeries-1 {
		return t.overflow
	}
	k.scheme, k.host = strings.Clone(k.scheme), strings.Clone(k.host) // so that the URL is not kept in memory
	s := newSeries(append(k.attributes(), t.always...)...)
	t.known[k] = s
	return s
}

// shows reports whether the gauges show limits of that name. They show the first
// maxLimitNames.
func (t *seriesTable) shows(limit string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.limits) < maxLimitNames {
		t.limits[limit] = true
	}
	return t.limits[limit]
}
