package scenario

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestReadyScenarios(t *testing.T) {
	const names = "announced, broken-bodies, brownout, fleet, herd, outage, random-429, retry-after, slow, step, throttle, workers"
	if got := strings.Join(Names(), ", "); got != names {
		t.Errorf("ready scenarios %v, want %v", got, names)
	}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			s, err := Ready(name)
			if err != nil {
				t.Fatal(err)
			}
			if s.Name != name || s.About == "" || len(s.Settings) < 4 || s.Seed == 0 {
				t.Errorf("got %+v", s)
			}
			s.Clients.Count, s.Duration = 10_000, seconds(600)
			if err := s.Validate(); err != nil && s.Clients.Callers == 0 {
				t.Errorf("with 10,000 clients: %v", err)
			}
			text, err := Source(name)
			if lines := strings.Count(string(text), "\n"); err != nil || !strings.Contains(string(text), "# Look at this: ") {
				t.Errorf("%v; its %d lines do not say what to look at", err, lines)
			}
		})
	}
	_, err := Ready("../scenario")
	if err == nil || !strings.Contains(err.Error(), names) {
		t.Errorf("error %v, want one with the names", err)
	}
}

const small = `
name: small
duration: 1m30s
seed: 18446744073709551615
clients: {count: 2, rate: 1.5, timeout: 0.5s}
service:
  capacity: 3
  queue: 4
  latency: {median: 5ms}
events:
  - kind: throttle
    from: 10s
    throttle: {rate: 1, retry_after: 2s, share: 0.08}
settings:
  - none
  - delivery=aws-managed
  - {use: naive, name: eager, max_attempts: 10, pause: 10ms}
`

func TestParse(t *testing.T) {
	want := Scenario{
		Name: "small", Duration: seconds(90), Seed: 1<<64 - 1,
		Clients: Clients{Count: 2, Rate: 1.5, Timeout: ms(500)},
		Service: Service{Capacity: 3, Queue: 4, Latency: Latency{Median: ms(5)}},
		Events: []Event{{
			Kind: Throttling, From: seconds(10), Throttle: &Throttle{Rate: 1, Share: 0.08, RetryAfter: seconds(2)},
		}},
		Settings: []Setting{
			{Use: UseNone}, {Use: UseDelivery, Policy: AWSManaged},
			{Use: UseNaive, Name: "eager", MaxAttempts: 10, Pause: ms(10)},
		},
	}
	for name, text := range map[string]string{
		"YAML": small,
		"JSON": `{"name": "small", "duration": "1m30s", "seed": 18446744073709551615,
			"clients": {"count": 2, "rate": 1.5, "timeout": "0.5s"},
			"service": {"capacity": 3, "queue": 4, "latency": {"median": "5ms"}},
			"events": [{"kind": "throttle", "from": "10s", "throttle": {"rate": 1, "share": 0.08, "retry_after": "2s"}}],
			"settings": ["none", "delivery=aws-managed",
				{"use": "naive", "name": "eager", "max_attempts": 10, "pause": "10ms"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseAliases(t *testing.T) {
	const text = `
duration: &long 90s
clients: {count: &two 2, callers: *two, timeout: *long}
service: {capacity: 3, queue: 4, latency: {median: 5ms}}
settings: [&eager {use: naive, pause: 10ms}, {<<: *eager, name: lazy}]
`
	want := Scenario{
		Duration: seconds(90),
		Clients:  Clients{Count: 2, Callers: 2, Timeout: seconds(90)},
		Service:  Service{Capacity: 3, Queue: 4, Latency: Latency{Median: ms(5)}},
		Settings: []Setting{{Use: UseNaive, Pause: ms(10)}, {Use: UseNaive, Name: "lazy", Pause: ms(10)}},
	}
	got, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseErrors(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "the scenario is empty"},
		{"a word", "hello", `[1:1] the scenario is "hello"; it must be fields`},
		{"a longer word", "x" + strings.Repeat("é", 31), `[1:1] the scenario is "x` + strings.Repeat("é", 29) + `"…`},
		{"two scenarios", small + "---\n" + small, "continues after a line of ---"},
		{"no YAML", "[", "simulate: yaml: line 1: "},
		{"long", strings.Repeat("#", maxTextSize+1), "it must have at most 65536"},
		{"a fraction by an alias", "seed: &s 2.5\nclients: {count: *s}\n",
			`[1:7] seed is "2.5"; it must be a whole number`},
		{"many merges", "settings:\n- &a {use: none}\n" + strings.Repeat("- &a {<<: *a, <<: *a}\n", 30),
			"aliases stand for too many values"},
		{"a repeated field", "seed: 1\nseed: 2\n", `[2:1] repeated field "seed"`},
		{"a merged field", small + "clients: {<<: 5}", `[18:1] repeated field "clients"`},
		{"a list that is text", small[:strings.Index(small, "settings:")] + "settings: none\n",
			`[14:11] settings is "none"; it must be a list`},
	} {
		t.Run(tt.name, func(t *testing.T) { wantParseError(t, tt.text, tt.want) })
	}
	// What is wrong with a part of the small scenario.
	for _, tt := range []struct{ part, by, want string }{
		{"rate: 1.5", "rat: 1.5", `[5:21] unknown field "rat"`},
		{"rate: 1.5", "rate: fast", `[5:27] clients.rate is "fast"; it must be a finite number`},
		{"rate: 1.5", "rate: .nan", "[5:27] clients.rate is NaN; it must be"},
		{"count: 2", "count: 2.5", `[5:18] clients.count is "2.5"; it must be a whole number`},
		{"count: 2", "count: 99999999999999999999",
			`[5:18] clients.count is "99999999999999999999"; it must be a whole number`},
		{"seed: 18446744073709551615", "seed: -1",
			`[4:7] seed is "-1"; it must be a whole number, 0 to 18446744073709551615`},
		{"seed: 18446744073709551615", "seed: 18446744073709551616",
			`[4:7] seed is "18446744073709551616"; it must be a whole number, 0 to 18446744073709551615`},
		{"1m30s", "90", `[3:11] duration is "90"; it must be a number with its unit, as in 90s, 1m30s or 250ms`},
		{"rate: 1, retry", "per_client: perhaps, rate: 1, retry",
			`[13:28] events[0].throttle.per_client is "perhaps"; it must be true or false`},
		{"name: small", "name: [small]", `[2:7] name is "[small]"; it must be text`},
		{"latency: {median: 5ms}", "latency: 5ms", `[9:12] service.latency is "5ms"; it must be fields`},
		{"delivery=aws-managed", "standard=5",
			`[16:5] settings[1]: setting "standard=5": only adaptive, fleet, delivery and profile take a value`},
		{"delivery=aws-managed", "delivery=", `setting "delivery=": nothing follows the =`},
		{"delivery=aws-managed", "quickly", `[16:5] settings[1]: setting "quickly": use is "quickly"`},
		{"count: 2", "count: 0", "[5:18] clients.count is 0; it must be 1 to 125000"},
		{"from: 10s", "from: 10m", "[12:11] events[0].from is 10m; it must be"},
		{"capacity: 3", "", "service.capacity is 0; it must be above 0"},
		{"use: naive", "use: none", "settings[2]: max_attempts is set; it must be left out: it is for"},
	} {
		t.Run(tt.by, func(t *testing.T) { wantParseError(t, strings.Replace(small, tt.part, tt.by, 1), tt.want) })
	}
}

func wantParseError(t *testing.T, text, want string) {
	t.Helper()
	_, err := Parse([]byte(text))
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %v, want %q", err, want)
	}
	if !strings.HasPrefix(err.Error(), "simulate: ") || strings.Contains(err.Error(), "simulate: simulate") {
		t.Errorf("error %q does not begin with the package's name once", err)
	}
}

func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "small.yaml")
	if err := os.WriteFile(file, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Read(file); err != nil || s.Name != "small" {
		t.Errorf("got %+v, %v", s, err)
	}
	if _, err := Read(file + "x"); !os.IsNotExist(err) && !strings.Contains(err.Error(), "no such file") {
		t.Errorf("error %v, want one for a missing file", err)
	}
	if _, err := Read(filepath.Dir(file)); err == nil {
		t.Error("a folder is read")
	}
	if err := os.WriteFile(file, make([]byte, maxTextSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file); err == nil || !strings.Contains(err.Error(), "has more than 65536 bytes") {
		t.Errorf("a long file: %v", err)
	}
}

func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../docs/examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if _, err := Read(file); err != nil {
			t.Error(err)
		}
	}
}

// The label of a setting without a name is its short form, if it has one.
func TestLabel(t *testing.T) {
	for _, tt := range []struct {
		short   string // "": it has none
		setting Setting
		label   string // "": the short form
	}{
		{"standard", Setting{Use: UseStandard}, ""},
		{"adaptive", Setting{Use: UseAdaptive}, ""},
		{"adaptive=cubic", Setting{Use: UseAdaptive, Pacing: "cubic"}, ""},
		{"fleet=scaled", Setting{Use: UseFleet, Pacing: "scaled"}, ""},
		{"delivery=a+b.json", Setting{Use: UseDelivery, Policy: "a+b.json"}, ""},
		{"profile=a+b", Setting{Use: UseProfile, Profile: "a+b"}, ""},
		{"", Setting{Use: UseProfile, Pacing: "scaled"}, "profile, scaled"},
		{"", Setting{Use: UseProfile, Profile: "ci", Pacing: "scaled"}, "profile=ci, scaled"},
		{"", Setting{Use: UseAdaptive, Pacing: "scaled", Name: "ours"}, "ours"},
		{"standard+resume", Setting{Use: UseStandard, Resume: true}, "standard, resume"},
		{"adaptive=scaled+no_spread", Setting{Use: UseAdaptive, Pacing: "scaled", NoSpread: true},
			"adaptive=scaled, no_spread"},
		{"fleet+share_retry_after+quota=sdk", Setting{Use: UseFleet, ShareRetryAfter: true, Quota: QuotaSDK},
			"fleet, share_retry_after, quota=sdk"},
		{"standard+attempt_timeout=1m30s", Setting{Use: UseStandard, AttemptTimeout: seconds(90)}, "standard, attempt_timeout=1m30s"},
		{"revision2026+long_poll", Setting{Use: UseRevision2026, LongPoll: true}, "revision2026, long_poll"},
	} {
		if got := tt.setting.Label(); got != cmp.Or(tt.label, tt.short) {
			t.Errorf("the label of %+v is %s, want %s", tt.setting, got, cmp.Or(tt.label, tt.short))
		}
		if got, err := ParseSetting(tt.short); tt.short != "" && (err != nil || !gocmp.Equal(got, tt.setting)) {
			t.Errorf("%s: got %+v, %v, want %+v", tt.short, got, err, tt.setting)
		}
	}
	for short, want := range map[string]string{
		"standard+":                    "the option is \"\"; it must be share, limits, long_poll, share_retry_after, no_spread, resume",
		"standard+fast":                "the option is \"fast\"",
		"standard+use":                 "the option is \"use\"",
		"standard+quota=":              "the option is \"quota=\"",
		"standard+quota=big":           "quota is \"big\"; it must be documents, sdk, 2026 or none",
		"legacy+resume":                "legacy has no options; only standard, adaptive, fleet and revision2026 have some",
		"none+share":                   "none has no options",
		"standard+resume=1":            "the option is \"resume=1\"",
		"standard+attempt_timeout=2":   "attempt_timeout is \"2\"; it must be a number with its unit",
		"standard+attempt_timeout=1ns": "attempt_timeout is 1ns; it must be 1ms to 1h",
		"adaptive=":                    "nothing follows the =",
	} {
		if _, err := ParseSetting(short); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives error %v, want one with %q", short, err, want)
		}
	}
}

func TestDurationText(t *testing.T) {
	for text, want := range map[string]string{
		"90s": "1m30s", "60m": "1h", "1.5s": "1.5s", "24h": "24h", "0": "0s", "61m": "1h1m", "1h0m5s": "1h0m5s",
	} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || d.String() != want {
			t.Errorf("%s: got %v, %v, want %s", text, d, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	for _, name := range Names() {
		text, _ := Source(name)
		f.Add(text)
	}
	for _, text := range []string{
		"&c {count: *c}", "a: |\n\n\n", "- - - -", "? ? ?", "!a !a", "<<: *a", "a: &a [*a]", "- |\n a\n", "{a: b: c}",
		"\"\"\"",
	} {
		f.Add([]byte(text))
	}
	f.Add([]byte("settings: [&a {use: none}, *a]"))
	f.Add([]byte("duration: &d 90s\nclients: {count: 2.5, timeout: *d}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		start := time.Now()
		s, err := Parse(text)
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%d bytes took %v", len(text), took)
		}
		if err == nil && s.Validate() != nil {
			t.Error("Parse returns what Validate refuses")
		}
	})
}
