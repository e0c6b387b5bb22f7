package simulate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Scenario is what is simulated: clients, the service that they call, what happens to it, and the settings to
// compare. Its file form is YAML or JSON with the names of the yaml tags; the files of the ready scenarios, which
// [Source] returns, explain each of them.
type Scenario struct {
	Name     string    `yaml:"name" json:"name"`
	About    string    `yaml:"about,omitempty" json:"about,omitempty"` // one sentence for the reader
	Duration Duration  `yaml:"duration" json:"duration"`               // of virtual time, 1 s to 24 h
	Seed     uint64    `yaml:"seed,omitempty" json:"seed"`             // of every random number
	Clients  Clients   `yaml:"clients" json:"clients"`
	Service  Service   `yaml:"service" json:"service"`
	Events   []Event   `yaml:"events,omitempty" json:"events,omitempty"`
	Settings []Setting `yaml:"settings,omitempty" json:"settings"` // empty: DefaultSettings
}

// Clients is the fleet. Each client has a Transport of its own, with its own token bucket and rate limiter, and calls
// either in a closed loop (Callers, Think) or as calls arrive (Rate).
type Clients struct {
	Count int `yaml:"count" json:"count"`

	Callers int      `yaml:"callers,omitempty" json:"callers,omitempty"` // of each client: one call after the other; 0: none
	Think   Duration `yaml:"think,omitempty" json:"think,omitempty"`     // mean time between a caller's calls, exponentially distributed

	Rate        float64 `yaml:"rate,omitempty" json:"rate,omitempty"`                   // calls a second of all clients together, as a Poisson process; 0: none
	MaxInFlight int     `yaml:"max_in_flight,omitempty" json:"max_in_flight,omitempty"` // of each client's arriving calls; more fail unsent; 0: see inFlight

	Timeout        Duration `yaml:"timeout,omitempty" json:"timeout,omitempty"`                 // of a call with its retries and pauses; 0: none
	AttemptTimeout Duration `yaml:"attempt_timeout,omitempty" json:"attempt_timeout,omitempty"` // of an attempt, as Transport.AttemptTimeout; 0: none (a delivery policy has 15 s)
}

// Service is what the clients call: requests pass through a first-come-first-served queue at its capacity, then take their
// latency. What a client no longer waits for is worked off all the same.
type Service struct {
	Capacity   float64   `yaml:"capacity" json:"capacity"`                           // requests a second
	Queue      int       `yaml:"queue" json:"queue"`                                 // requests that may wait; more are refused
	QueueFull  int       `yaml:"queue_full,omitempty" json:"queue_full,omitempty"`   // the status that refuses them: 429 or 503; 0: 503
	Latency    Latency   `yaml:"latency" json:"latency"`                             // behind the queue
	Network    Duration  `yaml:"network,omitempty" json:"network,omitempty"`         // there and back; 0: 2 ms
	RefuseCost float64   `yaml:"refuse_cost,omitempty" json:"refuse_cost,omitempty"` // part of a request's capacity that refusing one takes, 0 to 1
	Throttle   *Throttle `yaml:"throttle,omitempty" json:"throttle,omitempty"`       // at all times; nil: none
}

// Latency is the distribution of the time that a request takes behind the queue.
type Latency struct {
	Distribution string   `yaml:"distribution,omitempty" json:"distribution,omitempty"` // constant, exponential or lognormal; "": lognormal, constant where P99 is 0
	Median       Duration `yaml:"median" json:"median"`
	P99          Duration `yaml:"p99,omitempty" json:"p99,omitempty"` // lognormal only, above Median
}

// Throttle is a token bucket that refuses with 429 what goes beyond a rate.
type Throttle struct {
	Rate       float64  `yaml:"rate" json:"rate"`                                   // requests a second
	Burst      float64  `yaml:"burst,omitempty" json:"burst,omitempty"`             // requests; 0: one second's
	PerClient  bool     `yaml:"per_client,omitempty" json:"per_client,omitempty"`   // a bucket for each client; false: one for all
	RetryAfter Duration `yaml:"retry_after,omitempty" json:"retry_after,omitempty"` // whole seconds, sent as Retry-After; 0: not sent
}

// What an Event does.
const (
	Outage        = "outage"   // nothing is answered well: see How
	CapacityStep  = "capacity" // another capacity: Capacity
	Errors        = "errors"   // a share of the answers is 500: Share
	Throttling    = "throttle" // another throttle: Throttle
	SlowLatency   = "latency"  // every latency times Factor
	Herd          = "herd"     // every client makes Calls calls more, spread over From to To
	outageRefuse  = "refuse"
	outageReset   = "reset"
	outageHang    = "hang"
	constantTime  = "constant"
	exponentially = "exponential"
	lognormally   = "lognormal"
)

// An Event changes the service, or lets the clients gather, between two instants of the run.
type Event struct {
	Kind string   `yaml:"kind" json:"kind"`
	From Duration `yaml:"from" json:"from"`
	To   Duration `yaml:"to,omitempty" json:"to,omitempty"` // 0: the end of the run

	How      string    `yaml:"how,omitempty" json:"how,omitempty"` // of an outage: refuse (503 at once), reset (no connection) or hang (no answer); "": refuse
	Capacity float64   `yaml:"capacity,omitempty" json:"capacity,omitempty"`
	Share    float64   `yaml:"share,omitempty" json:"share,omitempty"` // above 0 to 1
	Factor   float64   `yaml:"factor,omitempty" json:"factor,omitempty"`
	Calls    int       `yaml:"calls,omitempty" json:"calls,omitempty"`
	Throttle *Throttle `yaml:"throttle,omitempty" json:"throttle,omitempty"`
}

// The defaults.
const (
	defaultNetwork     = Duration(2 * time.Millisecond)
	defaultMaxInFlight = 4
)

// withDefaults returns s with its defaults filled in; s must be valid.
func (s Scenario) withDefaults() Scenario {
	if s.Service.Network == 0 {
		s.Service.Network = defaultNetwork
	}
	s.Service.QueueFull = orElse(s.Service.QueueFull, http.StatusServiceUnavailable)
	if s.Service.Latency.Distribution == "" {
		s.Service.Latency.Distribution = lognormally
		if s.Service.Latency.P99 == 0 {
			s.Service.Latency.Distribution = constantTime
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
			e.How = outageRefuse
		}
		e.Throttle = e.Throttle.withDefaults()
	}
	if len(s.Settings) == 0 {
		s.Settings = DefaultSettings()
	}
	return s
}

func (t *Throttle) withDefaults() *Throttle {
	if t == nil || t.Burst > 0 {
		return t
	}
	d := *t
	d.Burst = max(d.Rate, 1)
	return &d
}

// inFlight is the number of arriving calls that a client may have under way: MaxInFlight, or twice what arrives within
// the time-out of a call (a minute where there is none), at least 4 and what a herd brings.
func (s Scenario) inFlight() int {
	c := s.Clients
	herd := 0
	for _, e := range s.Events {
		if e.Kind == Herd {
			herd += e.Calls
		}
	}
	if c.MaxInFlight > 0 || c.Rate == 0 && herd == 0 {
		return c.MaxInFlight
	}
	patience := time.Duration(c.Timeout)
	if patience == 0 {
		patience = time.Minute
	}
	arriving := 2 * c.Rate / float64(max(c.Count, 1)) * patience.Seconds()
	return max(defaultMaxInFlight, int(min(arriving, maxOwners))+herd)
}

// A Duration is a time.Duration that is written with its unit, as in 90s, 1m30s or 250ms.
type Duration time.Duration

func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// UnmarshalText reads a duration with its unit; 0 needs none.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("the duration %s must be a number with its unit, as in 90s, 1m30s or 250ms", clipped(string(text)))
	}
	*d = Duration(v)
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// MarshalJSON writes seconds, for programs that read results.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).Seconds()) }

// UnmarshalJSON reads what MarshalJSON writes, seconds.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var seconds float64
	if err := json.Unmarshal(text, &seconds); err != nil {
		return err
	}
	*d = Duration(seconds * float64(time.Second))
	return nil
}

// clipped is s for an error message, quoted and of a length that can be read.
func clipped(s string) string {
	const limit = 60
	if len(s) > limit {
		return strconv.Quote(strings.ToValidUTF8(s[:limit], "")) + "…"
	}
	return strconv.Quote(s)
}
