// Package scenario describes what package simulate simulates: the clients, the
// service that they call, what happens to it, and the settings to compare. It reads
// scenarios from YAML and JSON files, checks them and sets their defaults.
package scenario

import (
	"cmp"
	"math"
	"net/http"
	"time"
)

// A Scenario describes what is simulated: clients, the service that they call, what
// happens to it, and the settings to compare. Its file form is YAML or JSON with
// the names of the yaml tags. The files of the ready scenarios, which [Source]
// returns, explain every field.
type Scenario struct {
	Name     string    `yaml:"name" json:"name"`
	About    string    `yaml:"about,omitempty" json:"about,omitempty"` // one sentence for the reader
	Duration Duration  `yaml:"duration" json:"duration"`               // in virtual time, 1s to 24h
	Drain    Duration  `yaml:"drain,omitempty" json:"drain,omitempty"` // the time after it in which calls end, but none begins; 0s to 1h
	Seed     uint64    `yaml:"seed,omitempty" json:"seed"`             // of all random numbers
	Clients  Clients   `yaml:"clients" json:"clients"`
	Service  Service   `yaml:"service" json:"service"`
	OverTime *OverTime `yaml:"over_time,omitempty" json:"over_time,omitempty"` // nil: only events change anything
	Events   []Event   `yaml:"events,omitempty" json:"events,omitempty"`
	Settings []Setting `yaml:"settings,omitempty" json:"settings"` // empty: DefaultSettings
}

// Clients is the fleet. Each client has a Transport with its own token bucket and
// rate limiter. Clients call either in a closed loop (Callers, Think) or at a rate
// that does not depend on the responses (Rate).
type Clients struct {
	Count int `yaml:"count" json:"count"` // with those that join in events

	// Callers of each client make one call after another. Between two calls they
	// think for a time that is exponentially distributed with the mean Think.
	Callers int      `yaml:"callers,omitempty" json:"callers,omitempty"`
	Think   Duration `yaml:"think,omitempty" json:"think,omitempty"`

	// Rate is the calls per second of all clients together, as a Poisson
	// process. A client has at most MaxInFlight of them under way and fails the
	// others unsent. A MaxInFlight of 0 means twice the calls that arrive
	// within Timeout.
	Rate        float64 `yaml:"rate,omitempty" json:"rate,omitempty"`
	MaxInFlight int     `yaml:"max_in_flight,omitempty" json:"max_in_flight,omitempty"`

	// Timeout limits a call with its retries and delays, and AttemptTimeout one
	// attempt. 0 means no limit, but 15 s for an attempt of a delivery policy.
	Timeout        Duration `yaml:"timeout,omitempty" json:"timeout,omitempty"`
	AttemptTimeout Duration `yaml:"attempt_timeout,omitempty" json:"attempt_timeout,omitempty"`
}

// Service is what the clients call. Requests pass a first-come-first-served
// queue at the service's capacity and then take their latency. The service also
// works on requests whose client has given up.
type Service struct {
	Capacity float64 `yaml:"capacity" json:"capacity"` // requests per second

	// Queue is how many requests may wait. Others are refused with the status
	// QueueFull, 429 or 503; 0 means 503.
	Queue     int `yaml:"queue" json:"queue"`
	QueueFull int `yaml:"queue_full,omitempty" json:"queue_full,omitempty"`

	Latency Latency  `yaml:"latency" json:"latency"`                     // after the queue
	Network Duration `yaml:"network,omitempty" json:"network,omitempty"` // round trip; 0: 2 ms

	// RefuseCost is the capacity that refusing a request takes, from 0
	// to 1 request.
	RefuseCost float64 `yaml:"refuse_cost,omitempty" json:"refuse_cost,omitempty"`

	// ErrorsAtOnce makes the errors of events and of OverTime skip the queue and
	// the latency.
	ErrorsAtOnce bool `yaml:"errors_at_once,omitempty" json:"errors_at_once,omitempty"`

	Throttle *Throttle `yaml:"throttle,omitempty" json:"throttle,omitempty"` // at all times; nil: none

	Body *Body `yaml:"body,omitempty" json:"body,omitempty"` // of a successful response; nil: empty
}

// Body describes the bodies of successful responses. A call succeeds when it has
// the whole body. An outage does not end a body that has begun.
type Body struct {
	Time Duration `yaml:"time" json:"time"` // from the header to the end

	// Broken is the share of the bodies that break off, from 0 to below 1. They
	// break off at a random instant, so the rest of a body breaks off less often
	// than a whole one.
	Broken float64 `yaml:"broken,omitempty" json:"broken,omitempty"`
}

// Latency is the distribution of the time that a request takes after the queue.
type Latency struct {
	// Distribution is constant, exponential, lognormal or table. "" means
	// lognormal, or constant if P99 is 0.
	Distribution string   `yaml:"distribution,omitempty" json:"distribution,omitempty"`
	Median       Duration `yaml:"median,omitempty" json:"median"`
	P99          Duration `yaml:"p99,omitempty" json:"p99,omitempty"` // lognormal only, above Median

	// Table has the points of a measured distribution in order, for the
	// distribution table.
	Table []Quantile `yaml:"table,omitempty" json:"table,omitempty"`
}

// A Quantile is a point of a measured distribution: a share of the requests
// takes at most that time.
type Quantile struct {
	Share  float64  `yaml:"share" json:"share"`
	Within Duration `yaml:"within" json:"within"`
}

// Throttle refuses requests with 429: those above the rate of a token bucket, those
// above a number of requests in flight, and a share of all requests.
type Throttle struct {
	Rate  float64 `yaml:"rate,omitempty" json:"rate,omitempty"`   // requests per second; 0: any
	Burst float64 `yaml:"burst,omitempty" json:"burst,omitempty"` // requests; 0: those of one second

	// Window is the length of windows, from the start of the run on, each of which
	// admits what Rate allows in it at any time. 0 means a token bucket.
	Window Duration `yaml:"window,omitempty" json:"window,omitempty"`

	// Announces is the dialect in which responses announce what is left of the
	// rate: github, draft6, draft8, openai, anthropic or heroku. "" means none.
	Announces string `yaml:"announces,omitempty" json:"announces,omitempty"`

	// Share is the share of the requests that are refused at random, from 0 to
	// below 1. They take nothing from the rate.
	Share float64 `yaml:"share,omitempty" json:"share,omitempty"`

	// InFlight is how many requests the service works on at a time, from their
	// arrival to the response. 0 means any number.
	InFlight int `yaml:"in_flight,omitempty" json:"in_flight,omitempty"`

	// Ban is for how long all requests are refused after one that was. Requests
	// that are refused because of it do not prolong it. 0 means not at all.
	Ban Duration `yaml:"ban,omitempty" json:"ban,omitempty"`

	// PerClient means that the rate, InFlight and Ban are those of each client,
	// instead of all together.
	PerClient bool `yaml:"per_client,omitempty" json:"per_client,omitempty"`

	// RetryAfter is sent as Retry-After, in whole seconds. 0 is not sent.
	RetryAfter Duration `yaml:"retry_after,omitempty" json:"retry_after,omitempty"`

	// RetryAt is an instant of the run that is sent as Retry-After's date, in
	// whole seconds. All callers get the same date. 0 is not sent.
	RetryAt Duration `yaml:"retry_at,omitempty" json:"retry_at,omitempty"`

	// Code is the AWS error code in a JSON body. "" means no body.
	Code string `yaml:"code,omitempty" json:"code,omitempty"`
}

// How a service announces its limits: the values of Throttle.Announces. OpenAI
// and Anthropic are buckets that refill, so they have no Window.
const (
	GitHub    = "github"    // X-RateLimit-Limit, -Remaining and -Reset, a Unix time
	Draft6    = "draft6"    // RateLimit-Limit, -Remaining and -Reset, seconds
	Draft8    = "draft8"    // RateLimit and RateLimit-Policy
	OpenAI    = "openai"    // X-RateLimit-Limit-Requests and its kind
	Anthropic = "anthropic" // Anthropic-RateLimit-Requests-Limit and its kind
	Heroku    = "heroku"    // RateLimit-Remaining
)

var dialects = []string{GitHub, Draft6, Draft8, OpenAI, Anthropic, Heroku}

// The kinds of an Event.
const (
	Outage       = "outage"   // every request fails: see How
	CapacityStep = "capacity" // another capacity: Capacity
	Errors       = "errors"   // a share of the responses is 500: Share
	Throttling   = "throttle" // another throttle: Throttle
	SlowLatency  = "latency"  // every latency is multiplied: Factor
	Herd         = "herd"     // the clients make additional calls, spread over From to To: Calls of each on average
	Join         = "join"     // clients begin to call, one after the other from From to To: Clients
)

// How an outage fails a request: the values of Event.How.
const (
	OutageRefuse = "refuse" // 503 at once
	OutageReset  = "reset"  // a connection reset
	OutageHang   = "hang"   // no response
)

// How latencies are distributed: the values of Latency.Distribution.
const (
	Constant    = "constant"
	Exponential = "exponential"
	Lognormal   = "lognormal"
	Tabulated   = "table"
)

// An Event changes the service, or adds calls, between two instants of the run.
type Event struct {
	Kind string   `yaml:"kind" json:"kind"`
	From Duration `yaml:"from" json:"from"`
	To   Duration `yaml:"to,omitempty" json:"to,omitempty"` // 0: the end of the run

	// How an outage fails requests: refuse (503 at once), reset (connection
	// reset) or hang (no response). "" means refuse.
	How string `yaml:"how,omitempty" json:"how,omitempty"`

	Capacity float64   `yaml:"capacity,omitempty" json:"capacity,omitempty"`
	Share    float64   `yaml:"share,omitempty" json:"share,omitempty"` // above 0, at most 1
	Factor   float64   `yaml:"factor,omitempty" json:"factor,omitempty"`
	Calls    float64   `yaml:"calls,omitempty" json:"calls,omitempty"`
	Clients  int       `yaml:"clients,omitempty" json:"clients,omitempty"`
	Throttle *Throttle `yaml:"throttle,omitempty" json:"throttle,omitempty"`
}

// The defaults.
const (
	defaultNetwork     = Duration(2 * time.Millisecond)
	defaultMaxInFlight = 4
)

// WithDefaults returns s with its defaults set. s must be valid.
func (s Scenario) WithDefaults() Scenario {
	if s.Service.Network == 0 {
		s.Service.Network = defaultNetwork
	}
	s.Service.QueueFull = cmp.Or(s.Service.QueueFull, http.StatusServiceUnavailable)
	if s.Service.Latency.Distribution == "" {
		s.Service.Latency.Distribution = Lognormal
		if s.Service.Latency.P99 == 0 {
			s.Service.Latency.Distribution = Constant
		}
	}
	s.Clients.MaxInFlight = s.inFlight()
	s.Service.Throttle = s.Service.Throttle.withDefaults()
	s.Events = append([]Event(nil), s.Events...)
	for i := range s.Events {
		e := &s.Events[i]
		if e.To == 0 {
			e.To = s.Duration
		}
		if e.Kind == Outage && e.How == "" {
			e.How = OutageRefuse
		}
		e.Throttle = e.Throttle.withDefaults()
	}
	if len(s.Settings) == 0 {
		s.Settings = DefaultSettings()
	}
	return s
}

func (t *Throttle) withDefaults() *Throttle {
	if t == nil || t.Rate == 0 || t.Burst > 0 {
		return t
	}
	d := *t
	d.Burst = max(d.Rate, 1)
	if d.Window > 0 {
		d.Burst = d.Rate * time.Duration(d.Window).Seconds()
	}
	return &d
}

// inFlight returns the number of arriving calls that a client may have under
// way: MaxInFlight, or twice the calls that arrive within the timeout of a call
// (a minute if there is none), at least 4, plus those of the herds.
func (s Scenario) inFlight() int {
	c := s.Clients
	herd := 0.0
	for _, e := range s.Events {
		if e.Kind == Herd {
			herd += e.Calls
		}
	}
	if c.MaxInFlight > 0 || c.Rate == 0 && herd == 0 {
		return c.MaxInFlight
	}
	patience := cmp.Or(time.Duration(c.Timeout), time.Minute)
	most, _ := s.arriving()
	arriving := 2 * most / float64(max(c.Count, 1)) * patience.Seconds()
	return max(defaultMaxInFlight, int(min(arriving, maxOwners)+math.Ceil(herd)))
}
