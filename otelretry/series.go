package otelretry

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"example.com/awsretry"
	"example.com/awsretry/internal/neterr"
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
	stopKey      = attribute.Key("awsretry.stop")      // why a call ended: an awsretry.Stop
	limitKey     = attribute.Key("awsretry.limit")     // the name of a limit that a service announces
	partitionKey = attribute.Key("awsretry.partition") // whose buckets an attempt used or a gauge shows
)

// other replaces values beyond a limit, as in the semantic conventions.
const other = "_OTHER"

// maxHost is longer than any DNS name.
const maxHost = 260

// A kind is what a series measures.
type kind int

const (
	ofAttempts kind = iota
	ofRefusals
	ofCalls
	ofDelays
	ofWaits
	kinds
)

// A key identifies a series. Unlike its attributes, it is cheap to make.
type key struct {
	kind                 kind
	scheme, host, method string

	partition string         // of an attempt or a refusal
	class     awsretry.Class // of an attempt or a delay
	stop      awsretry.Stop  // of a refusal or a call

	// Of an attempt.
	retry     bool
	status    int    // 0 means no response
	errorType string // "" means that of the status
}

func newKey(kind kind, req *http.Request) key {
	k := key{kind: kind, method: method(req.Method)}
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
	k := newKey(ofAttempts, a.Request)
	k.partition, k.class, k.retry = a.Partition, a.Class, a.Number > 1
	if a.Response != nil {
		k.status = a.Response.StatusCode
	} else {
		k.errorType = errorType(a)
	}
	return k
}

func refusalKey(a *awsretry.Attempt) key {
	k := newKey(ofRefusals, a.Request)
	k.partition, k.stop = a.Partition, a.Stop
	return k
}

func callKey(req *http.Request, stop awsretry.Stop) key {
	k := newKey(ofCalls, req)
	k.method, k.stop = "", stop
	return k
}

func delayKey(a *awsretry.Attempt) key {
	k := newKey(ofDelays, a.Request)
	k.method, k.class = "", a.Class
	return k
}

func waitKey(a *awsretry.Attempt) key {
	k := newKey(ofWaits, a.Request)
	k.method = ""
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
	switch {
	case a.Class == awsretry.Timeout, a.Stop == awsretry.StopDeadline && a.Class == awsretry.Permanent:
		return "timeout"
	case a.Stop == awsretry.StopCanceled:
		return "canceled"
	}
	if kind := neterr.Kind(a.Err); kind != "" {
		return kind
	}
	return semconv.ErrorType(a.Err).Value.AsString()
}

// attributes returns the attributes of the measurements of k.
func (k *key) attributes() []attribute.KeyValue {
	attrs := k.server()
	if k.method != "" {
		attrs = append(attrs, semconv.HTTPRequestMethodKey.String(k.method))
	}
	if k.kind == ofAttempts || k.kind == ofRefusals {
		attrs = append(attrs, partitionKey.String(utf8(k.partition)))
	}
	if k.kind == ofAttempts || k.kind == ofDelays {
		attrs = append(attrs, classKey.String(k.class.String()))
	}
	if k.stop != "" {
		attrs = append(attrs, stopKey.String(string(k.stop)))
	}
	if k.kind != ofAttempts {
		return attrs
	}
	attrs = append(attrs, retryKey.Bool(k.retry))
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

// server returns server.address and server.port, as far as they are known.
func (k *key) server() []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, 10)
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

// maxSeries is the limit for a metric in OpenTelemetry's Metrics SDK
// specification, "Cardinality limits". It includes the overflow. Hosts, methods,
// partitions and statuses may come from untrusted input.
const maxSeries = 2000

// rooms are how many sets of attributes a kind has as long as nothing is left
// out, without the partition, without the method and status too, and without
// the server: those of successes, and those of everything else. So an outage is
// seen under the name of its server, however many sets there were before. With
// the overflow they are at most maxSeries.
var rooms = map[bool][4]int{
	true:  {800, 1000, 1050, 1080},
	false: {400, 700, 880, 910},
}

// without returns k as it is in one of the rooms.
func (k key) without(room int) key {
	if room > 0 && (k.kind == ofAttempts || k.kind == ofRefusals) {
		k.partition = other
	}
	if room > 1 && k.method != "" {
		k.method = other
	}
	if room > 1 && k.status != 0 {
		k.status, k.errorType = 0, other
	}
	if room > 2 {
		k.scheme, k.host = "", other
	}
	return k
}

// succeeded reports whether k counts what went well.
func (k *key) succeeded() bool {
	if k.kind == ofRefusals || k.kind == ofCalls {
		return k.stop == awsretry.StopSuccess
	}
	return k.class == awsretry.Success
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

// A seriesTable holds the series of all measurements so far, as many as there is
// room for.
type seriesTable struct {
	always   []attribute.KeyValue // the user's
	overflow *series              // for measurements beyond all rooms

	mu      sync.RWMutex // guards the fields below
	known   map[key]*series
	used    [kinds]map[bool]int // sets in the rooms, by succeeded
	servers map[string][]attribute.KeyValue
	limits  map[string]bool // the names of limits that gauges show
}

func newSeriesTable(always []attribute.KeyValue) *seriesTable {
	always = slices.Clone(always)
	t := &seriesTable{
		always:   always,
		overflow: newSeries(append([]attribute.KeyValue{attribute.Bool("otel.metric.overflow", true)}, always...)...),
		known:    make(map[key]*series),
		servers:  make(map[string][]attribute.KeyValue),
		limits:   make(map[string]bool),
	}
	for kind := range t.used {
		t.used[kind] = make(map[bool]int)
	}
	return t
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
	if k.kind == ofAttempts {
		t.meet(k)
	}
	succeeded := k.succeeded()
	for room, limit := range rooms[succeeded] {
		folded := k.without(room)
		if s := t.known[folded]; s != nil {
			return s
		}
		if t.used[k.kind][succeeded] < limit {
			return t.make(folded, succeeded)
		}
	}
	return t.overflow
}

func (t *seriesTable) make(k key, succeeded bool) *series {
	// So that the URL is not kept in memory.
	k.scheme, k.host, k.partition = strings.Clone(k.scheme), strings.Clone(k.host), strings.Clone(k.partition)
	s := newSeries(append(k.attributes(), t.always...)...)
	t.known[k] = s
	t.used[k.kind][succeeded]++
	return s
}

// meet notes the server of a partition, for its gauges. A partition with two
// servers has none.
func (t *seriesTable) meet(k key) {
	server := k.server()
	known, met := t.servers[k.partition]
	switch {
	case met && !slices.Equal(known, server):
		t.servers[k.partition] = nil
	case !met && len(t.servers) < maxSeries:
		t.servers[strings.Clone(k.partition)] = server
	}
}

// ofPartition returns the attributes of a partition's gauges.
func (t *seriesTable) ofPartition(name string) []attribute.KeyValue {
	t.mu.RLock()
	defer t.mu.RUnlock()
	attrs := append([]attribute.KeyValue{partitionKey.String(utf8(name))}, t.servers[name]...)
	return append(attrs, t.always...)
}

// The limits that gauges show at once, and of their names, which the services
// choose.
const (
	maxLimitSeries = 1500
	maxLimitNames  = 50
)

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
