package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// document returns a valid scenario file with some of its fields replaced, each by
// a line in flow style.
func document(fields ...string) string {
	all := map[string]string{
		"duration": "60s", "clients": "{count: 10, rate: 10}",
		"service": "{capacity: 20, queue: 20, latency: {median: 20ms, p99: 100ms}}",
	}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		all[name] = value
	}
	text := ""
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text += name + ": " + all[name] + "\n"
	}
	return text
}

// service, throttle, event, setting and over return a field of a document that
// contains the given fields.
func service(fields string) string {
	return "service: {capacity: 20, queue: 20, latency: {median: 20ms}, " + fields + "}"
}
func throttle(fields string) string { return service("throttle: {" + fields + "}") }
func latency(fields string) string {
	return "service: {capacity: 20, queue: 20, latency: {" + fields + "}}"
}
func event(fields ...string) string   { return "events: [{" + strings.Join(fields, "}, {") + "}]" }
func setting(fields ...string) string { return "settings: [{" + strings.Join(fields, "}, {") + "}]" }

// over has a run of four steps, unless the fields change that.
func over(fields string) string { return "over_time: {every: 15s, " + fields + "}" }

func table(points string) string { return latency("distribution: table, table: [" + points + "]") }

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		field string
		want  string // of the error; "": there is none
	}{
		{"duration: 0", "duration is 0s; it must be 1s to 24h"},
		{"duration: 1500ms", "in whole seconds"},
		{"about: " + strings.Repeat("x", 1000), `"…; it must be of at most 200 bytes`},
		{`name: "\e[2J"`, `name is "\x1b[2J"; it must be printable`},
		{setting(`use: none, name: "two\nlines"`), `name is "two\nlines"; it must be printable`},

		{"clients: {count: 0, rate: 10}", "clients.count is 0; it must be 1 to 125000"},
		{"clients: {count: 125000, callers: 1, think: 1m}", ""},
		{"clients: {count: 125000, rate: 10, max_in_flight: 1}", ""},
		{"clients: {count: 1, callers: 250000, think: 1m}", "clients.callers is 250000; it must be 0 to 249999"},
		{"clients: {count: 1, callers: 249999, think: 1m}", ""},
		{"clients: {count: 1, rate: 10, max_in_flight: 249999}", ""},
		{"clients: {count: 125000, rate: 10}",
			"count * (callers + max_in_flight + 1) at most 250000; without max_in_flight it is twice the calls within timeout"},
		{"clients: {count: 10}", "without either nobody calls"},
		{"clients: {count: 10, rate: -1}", "clients.rate is -1; it must be at least 0 and at most 1e+06"},
		{"clients: {count: 10, rate: .nan}", "clients.rate is NaN"},
		{"clients: {count: 10, rate: 1e6, timeout: 1s}", "the number of calls is 6e+07; it must be at most 50000000"},
		{"clients: {count: 10, rate: 5e-324}", ""},
		{"clients: {count: 10, rate: 10, callers: 2}", "not both"},
		{"clients: {count: 10, callers: 20000}", "the number of calls"},
		{"clients: {count: 10, rate: 10, think: 1s}", "clients.think is 1s; it must be 0 if clients.callers is 0"},
		{"clients: {count: 10, rate: 10, max_in_flight: -1}", "clients.max_in_flight is -1"},
		{"clients: {count: 10, rate: 10, timeout: 5ns}", "clients.timeout is 5ns; it must be 1ms to 1h, or 0 for none"},
		{"clients: {count: 10, rate: 10, attempt_timeout: 2h}", "clients.attempt_timeout is 2h; it must be 1ms to 1h"},

		{"service: {capacity: 0, queue: 20}", "service.capacity is 0; it must be above 0"},
		{"service: {capacity: 20, queue: -1}", "service.queue is -1"},
		{service("queue_full: 500"), "service.queue_full is 500; it must be 429 or 503"},
		{service("network: 1ns"), "service.network is 1ns; it must be 100µs to 1h, or 0 for 2ms"},
		{service("refuse_cost: 1.5"), "service.refuse_cost is 1.5"},
		{service("body: {time: 0}"), "service.body.time is 0s; it must be 1ms to 1h"},
		{service("body: {time: 1s, broken: 1}"), "service.body.broken is 1; it must be at least 0 and below 1"},
		{service("body: {time: 1s, broken: .nan}"), "service.body.broken is NaN"},

		{latency("median: 20ms, p99: 20ms"), "service.latency.p99 is 20ms; it must be above the median"},
		{latency("distribution: lognormal, median: 20ms"), "service.latency.p99"},
		{latency("distribution: constant, median: 20ms, p99: 100ms"), "only the lognormal"},
		{latency("distribution: normal"), `"normal"; it must be constant, exponential, lognormal or table`},
		{latency("distribution: constant, table: [{share: 0}]"), "service.latency.table is set; it must be left out"},
		{latency("distribution: table, median: 1ms"), "service.latency.median is 1ms; it must be left out"},
		{latency("distribution: table, p99: 1ms"), "service.latency.p99 is 1ms; it must be left out"},
		{table(""), "service.latency.table is 0 entries; it must be 2 to 1000"},
		{table("{share: 0.1, within: 1ms}, {share: 1, within: 2ms}"), "table[0].share is 0.1; it must be 0"},
		{table("{share: 0}, {share: 0.9}"), "table[1].share is 0.9; it must be 1, for the longest"},
		{table("{share: 0, within: 20ms}, {share: 1, within: 1ms}"), "table[1].within is 1ms; it must be 20ms to 1h"},

		{throttle(""), "service.throttle.rate is 0; it must be above 0 and at most 1e+06, or 0 with a share"},
		{throttle("rate: 1, share: 1"), "service.throttle.share is 1; it must be at least 0 and below 1"},
		{throttle("rate: -1, share: 0.1"), "service.throttle.rate is -1; it must be above 0"},
		{throttle("share: 0.1, burst: 5"), "service.throttle.burst is 5; it must be left out if the rate is 0"},
		{throttle("share: 0.1, announces: github"), "announces is github; it must be left out if the rate is 0"},
		{throttle("rate: 1, window: 1m, announces: draft8"), ""},
		{throttle("rate: 1, window: 100ms"), "window is 100ms; it must be long enough for a request"},
		{throttle("rate: 1, window: 1m, burst: 5"), "service.throttle.burst is 5; it must be 0 if there is a window"},
		{throttle("rate: 1, announces: twitter"), "announces is \"twitter\"; it must be github, draft6, draft8,"},
		{throttle("rate: 1, window: 1m, announces: openai"), "window is 1m; it must be 0 if announces is openai"},
		{throttle("rate: 1, burst: 0.5"), "service.throttle.burst is 0.5; it must be at least 1"},
		{throttle("rate: 1, retry_after: 500ms"), "retry_after is 500ms; it must be in whole seconds"},
		{throttle(`rate: 1, code: 'Slow"Down'`), "service.throttle.code is \"Slow\\\"Down\"; it must be"},
		{throttle("in_flight: 5, per_client: true"), ""},
		{throttle("in_flight: -1"), "service.throttle.in_flight is -1; it must be 0 to 1000000"},
		{throttle("in_flight: 5, window: 1s"), "service.throttle.window is 1s; it must be left out if the rate is 0"},
		{throttle("ban: 1m"), "service.throttle.rate is 0; it must be above 0"},
		{throttle("share: 0.1, ban: 1m, per_client: true"), ""},
		{throttle("share: 0.1, per_client: true"), "per_client is true; it must be left out without a rate, in_flight or ban"},
		{throttle("rate: 1, ban: 2h"), "service.throttle.ban is 2h; it must be 0s to 1h"},
		{throttle("rate: 1, retry_at: 9s, retry_after: 1s"), "retry_at is 9s; it must be 0 if retry_after is above 0"},

		{"over_time: {every: 0}", "over_time.every is 0s; it must be 100ms to 24h"},
		{over("rate: [1]"), "over_time.rate is 1 numbers; it must be 4, one for each step of the run, or none"},
		{over("rate: [1, 1, .nan, 1]"), "over_time.rate[2] is NaN; it must be at least 0"},
		{over("errors: [1, 1, 0, 1.1]"), "over_time.errors[3] is 1.1"},
		{over("throttled: [0, 0, 0, 0]"), "over_time.throttled is set; it must be left out without"},

		{event("kind: outage, from: 60s"),
			"events[0].from is 1m; it must be 0s or more, and before the end of the run, 1m"},
		{event("kind: outage, from: 5s, to: 5s"), "events[0].to is 5s; it must be after from, 5s"},
		{event("kind: outage, to: 61s"), "at most the end of the run"},
		{event("kind: outage, how: slowly"), "refuse, reset or hang"},
		{event("kind: outage, how: hang"), "they would wait forever"},
		{event("kind: outage, capacity: 5"),
			"events[0].capacity is set; it must be left out: it is for events of kind capacity, not outage"},
		{event("kind: flood"), `"flood"; it must be outage, capacity, errors, throttle, latency, herd or join`},
		{event("kind: capacity"), "events[0].capacity is 0; it must be above 0"},
		{event("kind: errors, share: 1.1"), "events[0].share is 1.1; it must be above 0 and at most 1"},
		{event("kind: herd"), "events[0].calls is 0; it must be above 0 and at most 1000"},
		{event("kind: join"), "events[0].clients is 0; it must be at least 1, and all that join at most"},
		{event("kind: herd, calls: 1, clients: 1"), "it must be left out: it is for events of kind join, not herd"},
		{event("kind: join, to: 1s, clients: 6", "kind: join, from: 1s, clients: 6"),
			"events[1].clients is 6; it must be at least 1, and all that join at most clients.count, 10"},
		{event("kind: join, to: 1s, clients: 6", "kind: join, from: 1s, clients: 4"), ""},
		{event("kind: throttle"), "events[0].throttle is missing"},
		{event("kind: throttle, throttle: {rate: -1}"), "events[0].throttle.rate is -1"},
		{event("kind: outage, to: 10s", "kind: outage, from: 9s, to: 20s"), "it must be over before events[0]"},
		{event("kind: outage, to: 10s", "kind: outage, from: 10s", "kind: errors, share: 1"), ""},
		{"events: [" + strings.Repeat("{},", 101) + "]", "events is 101; it must be at most 100"},

		{setting("use: ''"), `use is ""; it must be none, naive`},
		{setting("use: none", "use: none"), `"none"; it must be named so that no other setting has the same name`},
		{setting("use: none, max_attempts: 2"), "max_attempts is set; it must be left out: it is for naive, legacy"},
		{setting("use: none, attempt_timeout: 1s"), "attempt_timeout is set; it must be left out: it is for naive, legacy, delivery"},
		{setting("use: naive, attempt_timeout: 1ns"), "attempt_timeout is 1ns; it must be 1ms to 1h, or 0 for the clients'"},
		{setting("use: standard, pause: 1ns"), "pause is set; it must be left out: it is for naive only, not for standard"},
		{setting("use: naive, pause: -1ns"), "pause is"},
		{setting("use: standard, pacing: scaled"), "it is for adaptive, fleet, profile only, not for standard"},
		{setting("use: adaptive, pacing: linear"), `pacing is "linear"; it must be cubic or scaled`},
		{setting("use: adaptive", "use: adaptive, pacing: cubic", "use: adaptive, pacing: scaled"), ""},
		{setting("use: standard, quota_capacity: -1"), "quota_capacity is -1"},
		{setting("use: standard, quota: large"), `quota is "large"; it must be documents, sdk, 2026 or none`},
		{setting("use: standard, quota: none, quota_capacity: 5"), "5; it must be left out if quota is none"},
		{setting("use: fleet, store_latency: 2s"), "store_latency is 2s; it must be 0s to 1s"},
		{setting("use: fleet, lease: 49ms"), "lease is 49ms; it must be 50ms to 1m, or 0 for 400ms"},
		{setting("use: none, name: " + strings.Repeat("x", 200)), "at most 100 bytes"},
		{"settings: [" + strings.Repeat("{},", 21) + "]", "settings is 21; it must be at most 20"},
	} {
		t.Run(cmp.Or(tt.want, "valid "+tt.field), func(t *testing.T) {
			check(t, tt.want, document(tt.field))
		})
	}
	t.Run("a closed loop with a rate over time", func(t *testing.T) {
		check(t, "over_time.rate is set; it must be left out",
			document("clients: {count: 1, callers: 1}", over("rate: [1, 1, 1, 1]")))
	})
	t.Run("too many steps", func(t *testing.T) {
		check(t, "the run would have 2000 steps, and at most 1000 are allowed",
			document("duration: 20000s", "over_time: {every: 10s}"))
	})
	t.Run("too many calls over time", func(t *testing.T) {
		check(t, "the number of calls is 8e+10",
			document("duration: 80000s", "over_time: {every: 20000s, rate: [1e6, 1e6, 1e6, 1e6]}"))
	})
}

// check fails unless the text has that fault, or none.
func check(t *testing.T, want, text string) {
	t.Helper()
	_, err := Parse([]byte(text))
	switch {
	case want == "" && err != nil:
		t.Errorf("error %v, want none", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want one with %q", err, want)
	case err != nil && !strings.HasPrefix(err.Error(), "simulate: "):
		t.Errorf("error %q does not begin with the package's name", err)
	}
}

// A setting with New has a name and nothing else.
func TestValidateNew(t *testing.T) {
	through := func(base http.RoundTripper) http.RoundTripper { return base }
	for _, tt := range []struct {
		setting Setting
		want    string
	}{
		{Setting{Name: "own"}, "<nil>"},
		{Setting{}, `settings[0]: name is ""; it must be set where New is`},
		{Setting{Name: "own", MaxAttempts: 2}, `New is set; it must be the only field but Name`},
	} {
		s, err := Parse([]byte(document()))
		if err != nil {
			t.Fatal(err)
		}
		tt.setting.New = through
		s.Settings = []Setting{tt.setting}
		if got := fmt.Sprint(s.Validate()); !strings.Contains(got, tt.want) {
			t.Errorf("%+v: error %v, want one with %q", tt.setting, got, tt.want)
		}
	}
}

func seconds(s float64) Duration { return Duration(s * float64(time.Second)) }

func ms(n float64) Duration { return seconds(n / 1000) }
