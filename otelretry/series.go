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
	kind   kind
	place  place
	method string

	class awsretry.Class // of an attempt or a delay
	stop  awsretry.Stop  // of a refusal or a call

	// Of an attempt.
	retry     bool
	status    int    // 0 means no response
	errorType string // "" means that of the status
}

// A place is where requests go.
type place struct {
	scheme, host string
	partition    string // of an attempt or a refusal
}

func (k kind) hasPartition() bool { return k == ofAttempts || k == ofRefusals }

func newKey(kind kind, req *http.Request) key {
	k := key{kind: kind, method: method(req.Method)}
	if req.URL == nil {
		return k
	}
	if k.place.host = req.URL.Host; len(k.place.host) > maxHost {
		k.place.host = other
	} else if s := req.URL.Scheme; s == "http" || s == "https" {
		k.place.scheme = s
	}
	return k
}

func attemptKey(a *awsretry.Attempt) key {
	k := newKey(ofAttempts, a.Request)
	k.place.partition, k.class, k.retry = a.Partition, a.Class, a.Number > 1
	if a.Response != nil {
		k.status = a.Response.StatusCode
	} else {
		k.errorType = errorType(a)
	}
	return k
}

func refusalKey(a *awsretry.Attempt) key {
	k := newKey(ofRefusals, a.Request)
	k.place.partition, k.stop = a.Partition, a.Stop
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
	attrs := k.place.server()
	if k.method != "" {
		attrs = append(attrs, semconv.HTTPRequestMethodKey.String(k.method))
	}
	if k.kind.hasPartition() {
		attrs = append(attrs, partitionKey.String(utf8(k.place.partition)))
	}
	if k.class == otherClass {
		attrs = append(attrs, classKey.String(other))
	} else if k.kind == ofAttempts || k.kind == ofDelays {
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
func (p place) server() []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, 10)
	server := url.URL{Host: p.host}
	switch name := server.Hostname(); name {
	case "":
	case other:
		attrs = append(attrs, semconv.ServerAddress(other))
	default:
		attrs = append(attrs, semconv.ServerAddress(strings.ToLower(utf8(name))))
	}
	if port := portOf(&server, p.scheme); port > 0 {
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
// specification, "Cardinality limits", without the overflow. Hosts, methods,
// partitions and statuses may come from untrusted input.
const maxSeries = 1999

// places are how many places have a name, with the partition and without. The
// others share one.
var places = [...]int{150, 200}

// detailed is how many series of a kind may have details. The rest is for the
// bare series of every place, so none of them is ever missing.
var detailed = [kinds]int{
	ofAttempts: maxSeries - 6*201, // a success, a failure and one of the caller's own; first attempts and retries
	ofRefusals: maxSeries - 201,
	ofCalls:    maxSeries - 2*201, // a success or not
	ofDelays:   maxSeries - 201,
}

// otherClass is the class of failures without details.
const otherClass awsretry.Class = -1

// bare returns k without its details. What remains is what alerts divide by each
// other.
func (k key) bare() key {
	b := key{kind: k.kind, place: k.place, retry: k.retry}
	if k.method != "" {
		b.method = other
	}
	switch {
	case k.kind == ofRefusals || k.kind == ofCalls && k.stop != awsretry.StopSuccess:
		b.stop = other
	case k.kind == ofCalls:
		b.stop = k.stop
	case k.kind == ofDelays:
		b.class = otherClass
	case k.kind == ofAttempts && k.callersOwn():
		b.class, b.errorType = awsretry.Permanent, other
	case k.kind == ofAttempts && k.class != awsretry.Success:
		b.class, b.errorType = otherClass, other
	}
	return b
}

// callersOwn reports whether the failure of an attempt is its caller's own:
// canceled, or a request that the service does not accept.
func (k *key) callersOwn() bool {
	return k.class == awsretry.Permanent && (k.errorType == "canceled" || k.status > 0 && k.status < 500)
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

// A seriesTable holds the series of all measurements so far.
type seriesTable struct {
	always []attribute.KeyValue // the user's

	mu       sync.RWMutex // guards the fields below
	known    map[key]*series
	detailed [kinds]int              // series with details
	named    map[bool]map[place]bool // places with a name, by whether they have a partition
	servers  map[string][]attribute.KeyValue
	limits   map[string]bool // the names of limits that gauges show
}

func newSeriesTable(always []attribute.KeyValue) *seriesTable {
	return &seriesTable{
		always:  slices.Clone(always),
		known:   make(map[key]*series),
		named:   map[bool]map[place]bool{true: {}, false: {}},
		servers: make(map[string][]attribute.KeyValue),
		limits:  make(map[string]bool),
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
	if k.kind == ofAttempts {
		t.meet(k.place)
	}
	k.place = t.name(k.place, k.kind.hasPartition())
	s, bare := t.known[k], k.bare()
	switch {
	case s != nil:
		return s
	case k == bare:
	case t.detailed[k.kind] < detailed[k.kind]:
		t.detailed[k.kind]++
	case t.known[bare] != nil:
		return t.known[bare]
	default:
		k = bare
	}
	s = newSeries(append(k.attributes(), t.always...)...)
	t.known[k] = s
	return s
}

// name returns p, or what it is called because the names are used up. That
// depends on nothing that a series counts: otherwise the successes of a server
// could be without its name, and its failures with it.
func (t *seriesTable) name(p place, hasPartition bool) place {
	named := t.named[hasPartition]
	for _, most := range places {
		switch {
		case named[p]:
			return p
		case len(named) < most: // with strings of its own, so that the URL is not kept in memory
			p = place{strings.Clone(p.scheme), strings.Clone(p.host), strings.Clone(p.partition)}
			named[p] = true
			return p
		case hasPartition:
			p.partition = other
		}
	}
	p.scheme, p.host = "", other
	return p
}

// meet notes the server of a partition, for its gauges. A partition with two
// servers has none.
func (t *seriesTable) meet(p place) {
	server := p.server()
	known, met := t.servers[p.partition]
	switch {
	case met && !slices.Equal(known, server):
		t.servers[p.partition] = nil
	case !met && len(t.servers) < maxSeries:
		t.servers[strings.Clone(p.partition)] = server
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
