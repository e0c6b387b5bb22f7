package simulate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry/cmd/awsretry/internal/regular"
)

func TestReadyScenarios(t *testing.T) {
	if want := []string{"brownout", "herd", "outage", "step", "throttle"}; !slices.Equal(Names(), want) {
		t.Errorf("ready scenarios %v, want %v", Names(), want)
	}
	for _, name := range Names() {
		s, err := Ready(name)
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case s.Name != name || s.About == "" || len(s.Events) == 0 || len(s.Settings) != 6 || s.Seed == 0:
			t.Errorf("%s: %+v", name, s)
		}
		s.Clients.Count, s.Duration = 10_000, seconds(600)
		if err := s.Validate(); err != nil && s.Clients.Callers == 0 {
			t.Errorf("%s with 10,000 clients: %v", name, err)
		}
	}
	if _, err := Ready("../scenario"); err == nil || !strings.Contains(err.Error(), "brownout, herd, outage, step, throttle") {
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
    throttle: {rate: 1, retry_after: 2s}
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
		Events:  []Event{{Kind: Throttling, From: seconds(10), Throttle: &Throttle{Rate: 1, RetryAfter: seconds(2)}}},
		Settings: []Setting{{Use: UseNone}, {Use: UseDelivery, Policy: awsManaged},
			{Use: UseNaive, Name: "eager", MaxAttempts: 10, Pause: ms(10)}},
	}
	asJSON := `{"name": "small", "duration": "1m30s", "seed": 18446744073709551615,
		"clients": {"count": 2, "rate": 1.5, "timeout": "0.5s"},
		"service": {"capacity": 3, "queue": 4, "latency": {"median": "5ms"}},
		"events": [{"kind": "throttle", "from": "10s", "throttle": {"rate": 1, "retry_after": "2s"}}],
		"settings": ["none", "delivery=aws-managed", {"use": "naive", "name": "eager", "max_attempts": 10, "pause": "10ms"}]}`
	for form, text := range map[string]string{"YAML": small, "JSON": asJSON} {
		got, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", form, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", form, diff)
		}
	}
}

func TestParseErrors(t *testing.T) {
	replaced := func(old, new string) string { return strings.Replace(small, old, new, 1) }
	for _, test := range []struct{ text, want string }{
		{"", "the scenario is empty"},
		{"# none", "the scenario is empty"},
		{"hello", `the scenario is "hello" (line 1); it must be fields`},
		{small + "---\n" + small, "goes on after a line of ---"},
		{"[", "simulate: "},
		{replaced("rate: 1.5", "rat: 1.5"), `[5:21] unknown field "rat"`},
		{replaced("rate: 1.5", "rate: fast"), `clients.rate is "fast" (line 5); it must be a finite number`},
		{replaced("rate: 1.5", "rate: 1e999"), `clients.rate is "1e999" (line 5); it must be a finite number`},
		{replaced("rate: 1.5", "rate: [1]"), `clients.rate is "[1]" (line 5); it must be a finite number`},
		{replaced("rate: 1.5", "rate: .nan"), "clients.rate is NaN"},
		{replaced("rate: 1.5", "rate: .inf"), "clients.rate is +Inf"},
		{replaced("count: 2", "count: 2.5"), `clients.count is "2.5" (line 5); it must be a whole number`},
		{replaced("count: 2", "count: 99999999999999999999"), `clients.count is "99999999999999999999" (line 5); it must be a whole number, at most 9223372036854775807`},
		{replaced("max_attempts: 10", "max_attempts: 10.5"), `settings[2].max_attempts is "10.5" (line 17); it must be a whole number`},
		{replaced("seed: 18446744073709551615", "seed: -1"), `seed is "-1" (line 4); it must be a whole number, 0 to 18446744073709551615`},
		{replaced("1m30s", "90"), `duration is "90" (line 3); it must be a number with its unit, as in 90s, 1m30s or 250ms`},
		{replaced("1m30s", "soon"), `duration is "soon" (line 3); it must be a number with its unit`},
		{replaced("1m30s", "9999999h"), `duration is "9999999h" (line 3); it must be`},
		{replaced("retry_after: 2s", "retry_after: 2"), `events[0].throttle.retry_after is "2" (line 13); it must be a number with its unit`},
		{replaced("rate: 1, retry", "per_client: perhaps, rate: 1, retry"), `events[0].throttle.per_client is "perhaps" (line 13); it must be true or false`},
		{replaced("name: small", "name: [small]"), `name is "[small]" (line 2); it must be text`},
		{replaced("latency: {median: 5ms}", "latency: 5ms"), `service.latency is "5ms" (line 9); it must be fields`},
		{small[:strings.Index(small, "settings:")] + "settings: none\n", `settings is "none" (line 14); it must be a list`},
		{"duration: &d 90\nclients: {timeout: *d}\n", `duration is "90" (line 1); it must be a number with its unit`},
		{replaced("delivery=aws-managed", "standard=5"), `setting "standard=5": only delivery and profile take a value`},
		{replaced("delivery=aws-managed", "delivery="), `setting "delivery=": nothing follows the =`},
		{replaced("delivery=aws-managed", "profile="), `setting "profile=": nothing follows the =`},
		{replaced("delivery=aws-managed", "quickly"), `setting "quickly": use is "quickly"`},
		{replaced("pause: 10ms", "wait: 10ms"), `unknown field "wait"`},
		{replaced("use: naive", "use: none"), "max_attempts is for"},
		{strings.Repeat("é", 31), `the scenario is "` + strings.Repeat("é", 30) + `"… (line 1)`},
		{"x" + strings.Repeat("é", 31), `the scenario is "x` + strings.Repeat("é", 29) + `"… (line 1)`},
		{strings.Repeat("[", 10_000), "nests more than 100 brackets"},
		{strings.Repeat(" ", regular.MaxSize+1), "at most 1048576 are read"},
	} {
		_, err := Parse([]byte(test.text))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%.40q…: error %v, want one with %q", test.text, err, test.want)
		}
		if err != nil && (!strings.HasPrefix(err.Error(), "simulate: ") || strings.Count(err.Error(), "simulate: simulate") > 0) {
			t.Errorf("error %q does not begin with the package's name once", err)
		}
	}
}

func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "small.yaml")
	if err := os.WriteFile(file, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Read(file); err != nil || s.Name != "small" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Read(file + "x"); !os.IsNotExist(err) && !strings.Contains(err.Error(), "no such file") {
		t.Errorf("error %v", err)
	}
	if _, err := Read(filepath.Dir(file)); err == nil {
		t.Error("a folder is read")
	}
}

func TestDurationText(t *testing.T) {
	for text, want := range map[string]string{"90s": "1m30s", "60m": "1h", "1.5s": "1.5s", "24h": "24h", "0": "0s", "61m": "1h1m", "1h0m5s": "1h0m5s"} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || d.String() != want {
			t.Errorf("%s: %v, %v, want %s", text, d, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	for _, name := range Names() {
		text, _ := Source(name)
		f.Add(text)
	}
	f.Add([]byte("settings: [&a {use: none}, *a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		start := time.Now()
		s, err := Parse(text)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("%d bytes took %v", len(text), took)
		}
		if err == nil && s.Validate() != nil {
			t.Error("Parse returns what Validate refuses")
		}
	})
}
