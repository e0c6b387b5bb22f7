package scenario

import (
	"cmp"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	valid := func() Scenario {
		return Scenario{
			Duration: seconds(60), Clients: Clients{Count: 10, Rate: 10},
			Service: Service{Capacity: 20, Queue: 20, Latency: Latency{Median: ms(20), P99: ms(100)}},
		}
	}
	if s := valid(); s.Validate() != nil {
		t.Fatal(s.Validate())
	}
	event := func(e Event) func(*Scenario) {
		return func(s *Scenario) { s.Events = []Event{e} }
	}
	setting := func(of ...Setting) func(*Scenario) {
		return func(s *Scenario) { s.Settings = of }
	}
	for _, tt := range []struct {
		change func(*Scenario)
		want   string // of the error; "": there is none
	}{
		{func(s *Scenario) { s.Duration = 0 }, "duration is 0s; it must be 1s to 24h"},
		{func(s *Scenario) { s.Duration = math.MaxInt64 }, "it must be 1s to 24h"},
		{func(s *Scenario) { s.Duration = ms(1500) }, "in whole seconds"},
		{func(s *Scenario) { s.About = strings.Repeat("x", 1000) }, `"…; it must be of at most 200 bytes`},
		{func(s *Scenario) { s.Name = "\x1b[2J" }, `name is "\x1b[2J"; it must be printable`},
		{setting(Setting{Use: UseNone, Name: "two\nlines"}), `name is "two\nlines"; it must be printable`},

		{func(s *Scenario) { s.Clients.Count = 0 }, "clients.count is 0; it must be 1 to 1000000"},
		{func(s *Scenario) { s.Clients.Count = -1 }, "clients.count is -1"},
		{func(s *Scenario) { s.Clients.Count = math.MaxInt }, "clients.count"},
		{
			func(s *Scenario) { s.Clients.Count = 1_000_000 },
			"count * (callers + max_in_flight + 1) at most 250000; without max_in_flight it is twice the calls within timeout",
		},
		{func(s *Scenario) { s.Clients.Rate = 0 }, "without either nobody calls"},
		{func(s *Scenario) { s.Clients.Rate = -1 }, "clients.rate is -1; it must be at least 0 and at most 1e+06"},
		{func(s *Scenario) { s.Clients.Rate = math.NaN() }, "clients.rate is NaN"},
		{func(s *Scenario) { s.Clients.Rate = math.Inf(1) }, "clients.rate is +Inf"},
		{
			func(s *Scenario) { s.Clients.Rate, s.Clients.Timeout = 1e6, seconds(1) },
			"the number of calls is 6e+07; it must be at most 50000000",
		},
		{func(s *Scenario) { s.Clients.Rate = 1e300 }, "clients.rate is 1e+300"},
		{func(s *Scenario) { s.Clients.Rate = 5e-324 }, ""},
		{func(s *Scenario) { s.Clients.Callers = 2 }, "not both"},
		{func(s *Scenario) { s.Clients.Rate, s.Clients.Callers = 0, -1 }, "clients.callers is -1"},
		{func(s *Scenario) { s.Clients.Rate, s.Clients.Callers = 0, math.MaxInt }, "clients.callers"},
		{func(s *Scenario) { s.Clients.Rate, s.Clients.Callers = 0, 2 }, ""},
		{func(s *Scenario) { s.Clients = Clients{Count: 10, Callers: 20_000} }, "the number of calls"},
		{
			func(s *Scenario) { s.Clients.Think = seconds(1) },
			"clients.think is 1s; it must be 0 if clients.callers is 0",
		},
		{func(s *Scenario) { s.Clients.Think = -1 }, "clients.think"},
		{func(s *Scenario) { s.Clients.MaxInFlight = -1 }, "clients.max_in_flight is -1"},
		{func(s *Scenario) { s.Clients.Timeout = -1 }, "clients.timeout"},
		{func(s *Scenario) { s.Clients.Timeout = 5 }, "clients.timeout is 5ns; it must be at least 1ms, or 0 for none"},
		{
			func(s *Scenario) { s.Clients.AttemptTimeout = Duration(2 * time.Hour) },
			"clients.attempt_timeout is 2h; it must be 0s to 1h",
		},

		{func(s *Scenario) { s.Service.Capacity = 0 }, "service.capacity is 0; it must be above 0"},
		{func(s *Scenario) { s.Service.Capacity = math.NaN() }, "service.capacity is NaN"},
		{func(s *Scenario) { s.Service.Capacity = 5e-324 }, ""},
		{func(s *Scenario) { s.Service.Queue = -1 }, "service.queue is -1"},
		{func(s *Scenario) { s.Service.QueueFull = 500 }, "service.queue_full is 500; it must be 429 or 503"},
		{func(s *Scenario) { s.Service.Network = 1 }, "service.network is 1ns; it must be 100µs to 1h, or 0 for 2ms"},
		{func(s *Scenario) { s.Service.RefuseCost = 1.5 }, "service.refuse_cost is 1.5"},
		{func(s *Scenario) { s.Service.Latency.Median = -1 }, "service.latency.median"},
		{
			func(s *Scenario) { s.Service.Latency.P99 = ms(20) },
			"service.latency.p99 is 20ms; it must be above the median",
		},
		{
			func(s *Scenario) { s.Service.Latency.Distribution = Lognormal; s.Service.Latency.P99 = 0 },
			"service.latency.p99",
		},
		{func(s *Scenario) { s.Service.Latency.Distribution = Constant }, "only the lognormal"},
		{
			func(s *Scenario) { s.Service.Latency.Distribution = "normal" },
			`"normal"; it must be constant, exponential, lognormal or table`,
		},
		{
			func(s *Scenario) { s.Service.Throttle = &Throttle{} },
			"service.throttle.rate is 0; it must be above 0 and at most 1e+06, or 0 with a share",
		},
		{func(s *Scenario) { s.Service.Throttle = &Throttle{Share: 0.08} }, ""},
		{func(s *Scenario) { s.Service.Throttle = &Throttle{Rate: 1, Share: 0.08} }, ""},
		{
			func(s *Scenario) { s.Service.Throttle = &Throttle{Rate: 1, Share: 1} },
			"service.throttle.share is 1; it must be at least 0 and below 1",
		},
		{
			func(s *Scenario) { s.Service.Throttle = &Throttle{Rate: 1, Share: math.NaN()} },
			"service.throttle.share is NaN",
		},
		{
			func(s *Scenario) { s.Service.Throttle = &Throttle{Share: -0.1} },
			"service.throttle.share is -0.1; it must be at least 0",
		},
		{
			func(s *Scenario) { s.Service.Throttle = &Throttle{Rate: -1, Share: 0.1} },
			"service.throttle.rate is -1; it must be above 0",
		},
		{
			func(s *Scenario) { s.Service.Throttle = &Throttle{Share: 0.1, Burst: 5} },
			"service.throttle.burst is 5; it must be 0 if the rate is 0",
		},
		{
			func(s *Scenario) { s.Service.Throttle = &Throttle{Share: 0.1, PerClient: true} },
			"service.throttle.per_client is true; it must be false if the rate is 0",
		},
		{
			func(s *Scenario) { s.Service.Throttle = &Throttle{Rate: 1, Burst: 0.5} },
			"service.throttle.burst is 0.5; it must be at least 1",
		},
		{
			func(s *Scenario) { s.Service.Throttle = &Throttle{Rate: 1, Burst: math.NaN()} },
			"service.throttle.burst is NaN",
		},
		{
			func(s *Scenario) { s.Service.Throttle = &Throttle{Rate: 1, RetryAfter: ms(500)} },
			"in whole seconds, like the header",
		},
		{
			func(s *Scenario) { s.Service.Throttle = &Throttle{Rate: 1, Code: "Slow\"Down"} },
			"service.throttle.code is \"Slow\\\"Down\"; it must be of letters and digits",
		},

		{
			func(s *Scenario) { s.Service.Throttle = &Throttle{Rate: 1, RetryAt: ms(500)} },
			"service.throttle.retry_at is 500ms; it must be in whole seconds, like the header",
		},
		{
			func(s *Scenario) {
				s.Service.Throttle = &Throttle{Rate: 1, RetryAt: seconds(9), RetryAfter: seconds(1)}
			},
			"service.throttle.retry_at is 9s; it must be 0 if retry_after is above 0",
		},
		{func(s *Scenario) { s.Service.Throttle = &Throttle{Rate: 1, RetryAt: -1} }, "service.throttle.retry_at"},
		{func(s *Scenario) { s.Service.Body = &Body{} }, "service.body.time is 0s; it must be 1ms to 1h"},
		{
			func(s *Scenario) { s.Service.Body = &Body{Time: seconds(1), Broken: 1} },
			"service.body.broken is 1; it must be at least 0 and below 1",
		},
		{func(s *Scenario) { s.Service.Body = &Body{Time: seconds(1), Broken: math.NaN()} }, "service.body.broken is NaN"},
		{func(s *Scenario) { s.Service.Body = &Body{Time: seconds(1), Broken: 0.5} }, ""},

		{
			event(Event{Kind: Outage, From: seconds(60)}),
			"events[0].from is 1m; it must be 0s or more, and before the end of the run, 1m",
		},
		{event(Event{Kind: Outage, From: -1}), "events[0].from"},
		{event(Event{Kind: Outage, From: seconds(5), To: seconds(5)}), "events[0].to is 5s; it must be after from, 5s"},
		{event(Event{Kind: Outage, To: seconds(61)}), "at most the end of the run"},
		{event(Event{Kind: Outage, How: "slowly"}), "refuse, reset or hang"},
		{event(Event{Kind: Outage, How: OutageHang}), "they would wait forever"},
		{
			event(Event{Kind: Outage, Capacity: 5}),
			"events[0].capacity is set; it must be left out: it is for events of kind capacity, not outage",
		},
		{
			event(Event{Kind: "flood"}),
			`events[0].kind is "flood"; it must be outage, capacity, errors, throttle, latency, herd or join`,
		},
		{event(Event{Kind: CapacityStep}), "events[0].capacity is 0; it must be above 0"},
		{event(Event{Kind: Errors, Share: 1.1}), "events[0].share is 1.1; it must be above 0 and at most 1"},
		{event(Event{Kind: SlowLatency, Factor: math.Inf(1)}), "events[0].factor is +Inf"},
		{event(Event{Kind: Herd}), "events[0].calls is 0; it must be above 0 and at most 1000"},
		{event(Event{Kind: Herd, Calls: math.Inf(1)}), "events[0].calls"},
		{event(Event{Kind: Join}), "events[0].clients is 0; it must be at least 1, and all that join at most"},
		{event(Event{Kind: Join, Clients: math.MaxInt}), "events[0].clients"},
		{
			event(Event{Kind: Herd, Calls: 1, Clients: 1}),
			"events[0].clients is set; it must be left out: it is for events of kind join, not herd",
		},
		{func(s *Scenario) {
			s.Clients.Count = 3
			s.Events = []Event{{Kind: Join, To: seconds(1), Clients: 2}, {Kind: Join, From: seconds(1), Clients: 2}}
		}, "events[1].clients is 2; it must be at least 1, and all that join at most clients.count, 3"},
		{func(s *Scenario) {
			s.Clients.Count = 3
			s.Events = []Event{{Kind: Join, To: seconds(1), Clients: 2}, {Kind: Join, From: seconds(1), Clients: 1}}
		}, ""},
		{event(Event{Kind: Throttling}), "events[0].throttle is missing"},
		{event(Event{Kind: Throttling, Throttle: &Throttle{Rate: -1}}), "events[0].throttle.rate is -1"},
		{func(s *Scenario) {
			s.Events = []Event{{Kind: Outage, To: seconds(10)}, {Kind: Outage, From: seconds(9), To: seconds(20)}}
		}, "events[1] is outage; it must be over before events[0]"},
		{func(s *Scenario) {
			s.Events = []Event{{Kind: Outage, To: seconds(10)}, {Kind: Outage, From: seconds(10)},
				{Kind: Errors, Share: 1}}
		}, ""},
		{func(s *Scenario) { s.Events = make([]Event, 101) }, "events is 101; it must be at most 100"},

		{setting(Setting{}), `use is ""; it must be none, naive`},
		{
			setting(Setting{Use: UseNone}, Setting{Use: UseNone}),
			`settings[1] is "none"; it must be named so that no other setting has the same name`,
		},
		{setting(Setting{Use: UseNone}, Setting{Use: UseNone, Name: "again"}), ""},
		{setting(Setting{Use: UseNone, MaxAttempts: 2}), "settings[0]: max_attempts is for naive, standard"},
		{setting(Setting{Use: UseStandard, MaxAttempts: -1}), "max_attempts is -1"},
		{setting(Setting{Use: UseStandard, Pause: 1}), "pause is for naive only, not for standard"},
		{setting(Setting{Use: UseNaive, Pause: -1}), "pause is"},
		{setting(Setting{Use: UseNaive, Policy: "x"}), "policy is for delivery only"},
		{setting(Setting{Use: UseNaive, Profile: "x"}), "profile is for profile only"},
		{
			setting(Setting{Use: UseStandard, Pacing: "scaled"}),
			"pacing is for adaptive, fleet, profile only, not for standard",
		},
		{setting(Setting{Use: UseAdaptive, Pacing: "linear"}), `pacing is "linear"; it must be cubic or scaled`},
		{
			setting(Setting{Use: UseAdaptive}, Setting{Use: UseAdaptive, Pacing: "cubic"},
				Setting{Use: UseAdaptive, Pacing: "scaled"}),
			"",
		},
		{setting(Setting{Use: UseLegacy, Capacity: 5}), "quota_capacity is for standard"},
		{setting(Setting{Use: UseStandard, Capacity: -1}), "quota_capacity is -1"},
		{setting(Setting{Use: UseLegacy, LongPoll: true}), "long_poll is for standard"},
		{setting(Setting{Use: UseNaive, Resume: true}), "resume is for standard"},
		{setting(Setting{Use: UseDelivery, ShareRetryAfter: true}), "share_retry_after is for standard"},
		{setting(Setting{Use: UseLegacy, NoSpread: true}), "no_spread is for standard"},
		{setting(Setting{Use: UseNone, Quota: QuotaSDK}), "quota is for standard"},
		{setting(Setting{Use: UseStandard, Quota: "large"}), `quota is "large"; it must be documents, sdk, 2026 or none`},
		{
			setting(Setting{Use: UseStandard, Quota: QuotaNone, Capacity: 5}),
			"quota_capacity is 5; it must be left out if quota is none",
		},
		{setting(Setting{New: through, Name: "own", Quota: QuotaSDK}), "must be left out"},
		{setting(Setting{Use: UseAdaptive, StoreLatency: ms(1)}), "store_latency is for fleet only, not for adaptive"},
		{
			setting(Setting{Use: UseFleet, StoreLatency: seconds(2)}),
			"store_latency is 2s; it must be above 0 and at most 1s",
		},
		{setting(Setting{Use: UseAdaptive, Lease: seconds(1)}), "lease is for fleet only, not for adaptive"},
		{setting(Setting{Use: UseFleet, Lease: ms(49)}), "lease is 49ms; it must be 50ms to 1m, or 0 for 400ms"},
		{setting(Setting{Use: UseFleet, Policy: AWSManaged}), "policy is for delivery only, not for fleet"},
		{setting(Setting{Use: UseStandard}, Setting{Use: UseStandard, LongPoll: true}), ""},
		{setting(Setting{Use: UseNone, Name: strings.Repeat("x", 200)}), "at most 100 bytes"},
		{setting(Setting{New: through}), `settings[0]: name is ""; it must not be empty`},
		{
			setting(Setting{New: through, Name: "own", MaxAttempts: 2}),
			`settings[0]: "own" has New; its other fields, except for Name, must be left out`,
		},
		{setting(Setting{New: through, Name: "own", LongPoll: true}), "must be left out"},
		{setting(Setting{New: through, Name: "own"}), ""},
		{func(s *Scenario) { s.Settings = make([]Setting, 21) }, "settings is 21; it must be at most 20"},
	} {
		t.Run(cmp.Or(tt.want, "valid"), func(t *testing.T) {
			s := valid()
			tt.change(&s)
			err := s.Validate()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("error %v, want none", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want one with %q", err, tt.want)
			case err != nil && !strings.HasPrefix(err.Error(), "simulate: "):
				t.Errorf("error %q does not begin with the package's name", err)
			}
		})
	}
}

func through(base http.RoundTripper) http.RoundTripper { return base }

func seconds(s float64) Duration { return Duration(s * float64(time.Second)) }

func ms(n float64) Duration { return seconds(n / 1000) }
