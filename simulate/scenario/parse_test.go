package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadyScenarios(t *testing.T) {
	const names = "broken-bodies, brownout, fleet, herd, outage, random-429, retry-after, slow, step, throttle, workers"
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
			if diff := cmp.Diff(want, got); diff != "" {
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseErrors(t *testing.T) {
	replaced := func(old, by string) string { return strings.Replace(small, old, by, 1) }
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "the scenario is empty"},
		{"only a comment", "# none", "the scenario is empty"},
		{"a word", "hello", `[1:1] the scenario is "hello"; it must be fields`},
		{"a long word", strings.Repeat("é", 31), `[1:1] the scenario is "` + strings.Repeat("é", 30) + `"…`},
		{"a longer word", "x" + strings.Repeat("é", 31), `[1:1] the scenario is "x` + strings.Repeat("é", 29) + `"…`},
		{"two scenarios", small + "---\n" + small, "continues after a line of ---"},
		{"no YAML", "[", "simulate: [1:1] "},
		{"deep", strings.Repeat("[", 10_000), "nests more than 50 brackets"},
		{"long", strings.Repeat("#", maxTextSize+1), "it must have at most 65536"},

		{"an unknown field", replaced("rate: 1.5", "rat: 1.5"), `[5:21] unknown field "rat"`},
		{"an unknown field of a setting", replaced("pause: 10ms", "wait: 10ms"), `[17:49] unknown field "wait"`},

		{
			"a number that is text", replaced("rate: 1.5", "rate: fast"),
			`[5:27] clients.rate is "fast"; it must be a finite number`,
		},
		{
			"a number that is too large", replaced("rate: 1.5", "rate: 1e999"),
			`[5:27] clients.rate is "1e999"; it must be a finite number`,
		},
		{
			"a number that is a list", replaced("rate: 1.5", "rate: [1]"),
			`[5:27] clients.rate is "[1]"; it must be a finite number`,
		},
		{"no number", replaced("rate: 1.5", "rate: .nan"), "[5:27] clients.rate is NaN; it must be"},
		{"an infinite number", replaced("rate: 1.5", "rate: .inf"), "[5:27] clients.rate is +Inf; it must be"},
		{"a fraction", replaced("count: 2", "count: 2.5"), `[5:18] clients.count is "2.5"; it must be a whole number`},
		{
			"a whole number that is too large", replaced("count: 2", "count: 99999999999999999999"),
			`[5:18] clients.count is "99999999999999999999"; it must be a whole number`,
		},
		{
			"a fraction in a setting", replaced("max_attempts: 10", "max_attempts: 10.5"),
			`[17:45] settings[2].max_attempts is "10.5"; it must be a whole number`,
		},
		{"a fraction by an alias", "seed: &s 2.5\nclients: {count: *s}\n", `[1:10] seed is "2.5"; it must be a whole number`},
		{
			"below zero", replaced("seed: 18446744073709551615", "seed: -1"),
			`[4:7] seed is "-1"; it must be a whole number, 0 to 18446744073709551615`,
		},
		{
			"a fraction of a seed", replaced("seed: 18446744073709551615", "seed: 1.9"),
			`[4:7] seed is "1.9"; it must be a whole number, 0 to 18446744073709551615`,
		},
		{
			"a seed that is too large", replaced("seed: 18446744073709551615", "seed: 18446744073709551616"),
			`[4:7] seed is "18446744073709551616"; it must be a whole number, 0 to 18446744073709551615`,
		},
		{
			"a seed that is text", replaced("seed: 18446744073709551615", "seed: one"),
			`[4:7] seed is "one"; it must be a whole number, 0 to 18446744073709551615`,
		},
		{"an alias within its anchor", "&c {count: *c}", "[1:1] an anchor contains another anchor or an alias"},
		{"anchors in anchors", "name: &a [1]\nabout: &b [*a, *a]\n", "[2:8] an anchor contains another anchor or an alias"},
		{"many aliases", "name: &a b\nevents: [" + strings.Repeat("*a,", 200) + "]", "more than 100 anchors, aliases"},
		{"a deep list", strings.Repeat("- ", 10_000), "[1:21] more than 10 values begin in one another"},
		{
			"deep brackets that a comment seems to close", "#" + strings.Repeat("]", 9000) + "\n" + strings.Repeat("[", 9000),
			"nests more than 50 brackets",
		},
		{"many blank lines", "name: |" + strings.Repeat("\n", 60_000), "[102:1] more than 100 blank lines"},
		{"many blank lines of an old form", "name: |" + strings.Repeat("\r", 60_000), "[102:1] more than 100 blank lines"},
		{"an indented line", strings.Repeat(" ", 200) + "name: a", "[1:1] the line is indented by more than 100"},
		{"many quotes", strings.Repeat(`"`, 10_000), "[1:"},
		{
			"no unit", replaced("1m30s", "90"),
			`[3:11] duration is "90"; it must be a number with its unit, as in 90s, 1m30s or 250ms`,
		},
		{"no duration", replaced("1m30s", "soon"), `[3:11] duration is "soon"; it must be a number with its unit`},
		{
			"a list of durations", replaced("1m30s", "[1m, 30s]"),
			`[3:11] duration is "[1m, 30s]"; it must be a number with its unit`,
		},
		{"a duration that is too long", replaced("1m30s", "9999999h"), `[3:11] duration is "9999999h"; it must be`},
		{
			"no unit in an event", replaced("retry_after: 2s", "retry_after: 2"),
			`[13:38] events[0].throttle.retry_after is "2"; it must be a number with its unit`,
		},
		{
			"a duration with an anchor", "duration: &d 90\nclients: {timeout: *d}\n",
			`duration is "90"; it must be a number with its unit`,
		},
		{
			"not a bool", replaced("rate: 1, retry", "per_client: perhaps, rate: 1, retry"),
			`[13:28] events[0].throttle.per_client is "perhaps"; it must be true or false`,
		},
		{"text that is a list", replaced("name: small", "name: [small]"), `[2:7] name is "[small]"; it must be text`},
		{
			"fields that are text", replaced("latency: {median: 5ms}", "latency: 5ms"),
			`[9:12] service.latency is "5ms"; it must be fields`,
		},
		{
			"a list that is text", small[:strings.Index(small, "settings:")] + "settings: none\n",
			`[14:11] settings is "none"; it must be a list`,
		},

		{
			"a value of standard", replaced("delivery=aws-managed", "standard=5"),
			`[16:5] settings[1]: setting "standard=5": only adaptive, fleet, delivery and profile take a value`,
		},
		{"no policy", replaced("delivery=aws-managed", "delivery="), `setting "delivery=": nothing follows the =`},
		{"no profile", replaced("delivery=aws-managed", "profile="), `setting "profile=": nothing follows the =`},
		{
			"an unknown setting", replaced("delivery=aws-managed", "quickly"),
			`[16:5] settings[1]: setting "quickly": use is "quickly"`,
		},

		{
			"a value out of range", replaced("count: 2", "count: 0"),
			"[5:18] clients.count is 0; it must be 1 to 1000000",
		},
		{"an event out of range", replaced("from: 10s", "from: 10m"), "[12:11] events[0].from is 10m; it must be"},
		{"a missing field", replaced("capacity: 3", ""), "service.capacity is 0; it must be above 0"},
		{"a setting's fault", replaced("use: naive", "use: none"), "settings[2]: max_attempts is for"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want one with %q", err, tt.want)
			}
			if !strings.HasPrefix(err.Error(), "simulate: ") || strings.Contains(err.Error(), "simulate: simulate") {
				t.Errorf("error %q does not begin with the package's name once", err)
			}
		})
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
	for label, setting := range map[string]Setting{
		"standard":        {Use: UseStandard},
		"adaptive":        {Use: UseAdaptive},
		"adaptive=cubic":  {Use: UseAdaptive, Pacing: "cubic"},
		"adaptive=scaled": {Use: UseAdaptive, Pacing: "scaled"},
		"fleet":           {Use: UseFleet},
		"fleet=scaled":    {Use: UseFleet, Pacing: "scaled"},
		"delivery=x.json": {Use: UseDelivery, Policy: "x.json"},
		"profile=ci":      {Use: UseProfile, Profile: "ci"},
	} {
		if got := setting.Label(); got != label {
			t.Errorf("the label of %+v is %s, want %s", setting, got, label)
		}
		if got, err := ParseSetting(label); err != nil || got.Use != setting.Use || got.Pacing != setting.Pacing ||
			got.Policy != setting.Policy || got.Profile != setting.Profile {
			t.Errorf("%s: got %+v, %v, want %+v", label, got, err, setting)
		}
	}
	for label, setting := range map[string]Setting{
		"profile, scaled":    {Use: UseProfile, Pacing: "scaled"},
		"profile=ci, scaled": {Use: UseProfile, Profile: "ci", Pacing: "scaled"},
		"ours":               {Use: UseAdaptive, Pacing: "scaled", Name: "ours"},
	} {
		if got := setting.Label(); got != label {
			t.Errorf("the label of %+v is %s, want %s", setting, got, label)
		}
	}
	for short, setting := range map[string]Setting{
		"standard+resume":                   {Use: UseStandard, Resume: true},
		"adaptive=scaled+no_spread":         {Use: UseAdaptive, Pacing: "scaled", NoSpread: true},
		"fleet+share_retry_after+quota=sdk": {Use: UseFleet, ShareRetryAfter: true, Quota: QuotaSDK},
		"revision2026+long_poll":            {Use: UseRevision2026, LongPoll: true},
		"profile=a+b":                       {Use: UseProfile, Profile: "a+b"},
		"delivery=a+b.json":                 {Use: UseDelivery, Policy: "a+b.json"},
	} {
		if got, err := ParseSetting(short); err != nil || !cmp.Equal(got, setting) {
			t.Errorf("%s: got %+v, %v, want %+v", short, got, err, setting)
		}
	}
	for short, want := range map[string]string{
		"standard+":          "the option is \"\"; it must be long_poll, share_retry_after, no_spread, resume",
		"standard+fast":      "the option is \"fast\"",
		"standard+quota=":    "nothing follows quota=",
		"standard+quota=big": "quota is \"big\"; it must be documents, sdk, 2026 or none",
		"legacy+resume":      "use is \"legacy+resume\"",
	} {
		if _, err := ParseSetting(short); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives error %v, want one with %q", short, err, want)
		}
	}
	if _, err := ParseSetting("adaptive="); err == nil || !strings.Contains(err.Error(), "nothing follows the =") {
		t.Errorf("adaptive= gives error %v", err)
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
