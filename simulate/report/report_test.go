package report

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

func seconds(s float64) scenario.Duration { return scenario.Duration(s * float64(time.Second)) }

// lively is a small scenario in which much happens.
func lively() scenario.Scenario {
	return scenario.Scenario{
		Name: "lively", About: "Much happens.", Duration: seconds(30), Seed: 7,
		Clients: scenario.Clients{Count: 6, Rate: 40, Timeout: seconds(5)},
		Service: scenario.Service{Capacity: 60, Queue: 50, Latency: scenario.Latency{Median: seconds(0.02)}},
		Events: []scenario.Event{
			{Kind: scenario.Outage, From: seconds(5), To: seconds(8)},
			{Kind: scenario.Throttling, From: seconds(12), To: seconds(20),
				Throttle: &scenario.Throttle{Rate: 20, RetryAfter: seconds(1)}},
			{Kind: scenario.Join, From: seconds(10), To: seconds(20), Clients: 2},
		},
		Settings: []scenario.Setting{
			{Use: scenario.UseNone}, {Use: scenario.UseStandard, MaxAttempts: 5}, {Use: scenario.UseAdaptive},
		},
	}
}

func run(t *testing.T, s scenario.Scenario) *simulate.Result {
	t.Helper()
	r, err := simulate.Run(t.Context(), s, simulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var once = sync.OnceValues(func() (*simulate.Result, error) {
	return simulate.Run(context.Background(), lively(), simulate.Options{})
})

// result returns the result of the lively scenario. The caller may change it,
// except the series.
func result(t *testing.T) *simulate.Result {
	t.Helper()
	r, err := once()
	if err != nil {
		t.Fatal(err)
	}
	own := *r
	own.Outcomes = slices.Clone(r.Outcomes)
	own.Scenario.Settings = slices.Clone(r.Scenario.Settings)
	return &own
}

func write(t *testing.T, r *simulate.Result, o Origin) string {
	t.Helper()
	var page bytes.Buffer
	if err := Write(&page, r, o); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// elements returns what the elements of a name contain.
func elements(page, name string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`(?s)<`+name+`(?: [^>]*)?>(.*?)</`+name+`>`).FindAllStringSubmatch(page, -1) {
		all = append(all, m[1])
	}
	return all
}

// dataOf returns the data of a page.
func dataOf(t *testing.T, page string) (d struct {
	Every    int
	Events   []event
	Settings []struct {
		Name   string
		Notes  []string
		Charts []struct {
			Kind  string
			Times []float64
			Lines []struct {
				Name   string
				Values []*float64
			}
		}
	}
}) {
	t.Helper()
	m := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(page)
	if m == nil {
		t.Fatal("the page has no data")
	}
	if err := json.Unmarshal([]byte(m[1]), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// A page has the warnings of the table.
func TestWarnings(t *testing.T) {
	r := result(t)
	const warning = "<strong>Warning:</strong> <bdi>standard: 40.0% of the calls had not ended"
	if page := write(t, r, Origin{}); strings.Contains(page, "Warning:") {
		t.Error("a warning although all calls ended")
	}
	r.Outcomes[1] = simulate.Outcome{Setting: "standard", Calls: 1000, Good: 600, Unfinished: 400, Series: r.Outcomes[1].Series}
	if page := write(t, r, Origin{}); !strings.Contains(page, warning) {
		t.Errorf("the page does not have %q", warning)
	}
}

// Nothing in the page is fetched, and the policy forbids it.
func TestNothingIsFetched(t *testing.T) {
	page := write(t, result(t), Origin{Command: "awsretry simulate lively", Version: "v1.2.3"})
	own := strings.Replace(page, text("uplot/uPlot.iife.min.js"), "", 1)
	if own == page {
		t.Error("uPlot is not in the page as it is")
	}
	for _, fetches := range []string{
		"http:", "https:", "src=", "href=", "url(", "@import", "<link", "<img", "<iframe", "<object", "<base", "<form",
		"fetch(", "XMLHttpRequest", "WebSocket", "EventSource", "sendBeacon", "import(", "eval(", "Function(", " style=",
	} {
		if strings.Contains(own, fetches) {
			t.Errorf("the page has %q", fetches)
		}
	}
	if handler := regexp.MustCompile(`<[^>]* on[a-z]+=`).FindString(own); handler != "" {
		t.Errorf("the page has the handler %q", handler)
	}

	policy := regexp.MustCompile(`<meta http-equiv="Content-Security-Policy" content="([^"]*)">`).
		FindStringSubmatch(page)
	if policy == nil {
		t.Fatal("the page has no policy")
	}
	hashes := func(name string) string {
		all := ""
		for _, text := range elements(page, name) {
			if !strings.HasPrefix(text, "{") { // the data
				sum := sha256.Sum256([]byte(text))
				all += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
			}
		}
		return all
	}
	want := "default-src 'none'; style-src" + hashes("style") + "; script-src" + hashes("script") +
		"; base-uri 'none'; form-action 'none'"
	if got := html.UnescapeString(policy[1]); got != want {
		t.Errorf("the policy is %s, want %s", got, want)
	}
	if before, _, _ := strings.Cut(page, "Content-Security-Policy"); strings.Contains(before, "<style") {
		t.Error("the policy does not come first")
	}
}

// The curves are the result's, second by second.
func TestDataIsTheResult(t *testing.T) {
	r := result(t)
	page := write(t, r, Origin{})
	d := dataOf(t, page)
	if d.Every != 1 || len(d.Settings) != len(r.Outcomes) || len(d.Events) != 3 || d.Events[0] != (event{5, 8}) {
		t.Errorf("a point is %d seconds, %d settings, the events are %v", d.Every, len(d.Settings), d.Events)
	}
	values := func(setting int, kind, name string) []float64 {
		for _, c := range d.Settings[setting].Charts {
			for _, l := range c.Lines {
				if c.Kind != kind || l.Name != name {
					continue
				}
				var all []float64
				for _, v := range l.Values {
					if v == nil {
						all = append(all, math.NaN())
					} else {
						all = append(all, *v)
					}
				}
				if len(c.Times) != len(all) {
					t.Errorf("%s: %d times for %d values", name, len(c.Times), len(all))
				}
				return all
			}
		}
		return nil
	}
	for i, o := range r.Outcomes {
		for name, want := range map[string][]float64{
			"attempts": o.Series.Attempts, "goodput": o.Series.Good, "calls begun": o.Series.Started,
			"calls failed": o.Series.Bad, "throttled": o.Series.Throttled, "other failures": o.Series.Errors,
			"given up": o.Series.Lost,
		} {
			if got := values(i, load, name); !slices.Equal(got, want) {
				t.Errorf("%s of %s is %v, want %v", name, o.Setting, got, want)
			}
		}
		for n, sample := range o.Series.Tokens {
			if got := values(i, tokens, "tokens"); len(got) != len(o.Series.Tokens) || got[n] != sample.Value {
				t.Errorf("the tokens of %s are %v", o.Setting, got)
			}
		}
	}
	limited := 0
	for i, v := range values(2, rates, "send rate") {
		sample := r.Outcomes[2].Series.SendRate[i]
		if sample.Limited > 0 {
			limited++
		}
		if math.IsNaN(v) != (sample.Limited == 0) || sample.Limited > 0 && v != sample.Value {
			t.Errorf("the send rate is %v for %+v", v, sample)
		}
	}
	if limited == 0 || values(2, crowd, "clients")[29] != 6 || values(0, load, "the service can serve")[6] != 0 {
		t.Errorf("%d samples are limited; %+v", limited, d.Settings)
	}
	if notes := d.Settings[0].Notes; len(notes) != 2 || values(0, tokens, "tokens") != nil {
		t.Errorf("the notes on none are %q", notes)
	}

	// The table has the figures of the terminal's.
	var terminal bytes.Buffer
	if err := r.WriteTable(&terminal, 0); err != nil {
		t.Fatal(err)
	}
	shown, err := scenario.Parse([]byte(html.UnescapeString(elements(page, "pre")[0])))
	if diff := cmp.Diff(r.Scenario, shown); err != nil || diff != "" {
		t.Errorf("the scenario in the page: %v %s", err, diff)
	}
	cells := elements(page, "td")
	_, rows, _ := strings.Cut(terminal.String(), "(Jain)\n")
	if strings.Count(rows, "\n") != len(r.Outcomes) {
		t.Fatalf("the table is %s", terminal.String())
	}
	for line := range strings.Lines(rows) {
		for _, figure := range strings.Fields(line)[1:] {
			if !slices.ContainsFunc(cells, func(cell string) bool { return strings.Contains(cell, figure) }) {
				t.Errorf("the table does not have %s", figure)
			}
		}
	}
	if want := len(r.Outcomes) * (len(simulate.Columns()) - 1); len(cells) != want {
		t.Errorf("the table has %d cells, want %d", len(cells), want)
	}
}

// Names are text, wherever they occur in the page.
func TestHostileNames(t *testing.T) {
	plain := write(t, result(t), Origin{})
	for kind, name := range map[string]string{
		"markup":     `</script><script>alert(1)</script><style>*{}</style></pre></title><!--`,
		"attribute":  `" onmouseover="alert(1)" x='`,
		"separators": "a\u2028b\u2029c",
		"not UTF-8":  "a\xffb",
		"control":    "a\x00\x1b[31mb\x7f",
	} {
		t.Run(kind, func(t *testing.T) {
			r := result(t)
			r.Scenario.Name, r.Scenario.About = name, name
			r.Outcomes[1].Setting, r.Scenario.Settings[1].Name = name, name
			page := write(t, r, Origin{Command: name, Version: name})
			for _, tag := range []string{"script", "style", "pre", "title", "!--", "tr", "h2", "meta", "code"} {
				if got, want := strings.Count(page, "<"+tag), strings.Count(plain, "<"+tag); got != want {
					t.Errorf("%d times <%s, want %d", got, tag, want)
				}
			}
			if strings.Contains(page, ` onmouseover="`) {
				t.Error("a handler")
			}
			if got := dataOf(t, page).Settings[1].Name; got != strings.ToValidUTF8(name, "\ufffd") {
				t.Errorf("the data has the name %q, want %q", got, name)
			}
		})
	}
}

func TestOrigin(t *testing.T) {
	r := result(t)
	r.Resolution = simulate.Span(seconds(1))
	page := write(t, r, Origin{Command: "awsretry simulate 'a b' --seed 7", Version: "v1.2.3"})
	for _, want := range []string{
		"awsretry simulate &#39;a b&#39; --seed 7", "<code>v1.2.3</code>", "<code>7</code>",
		"Copyright (c) 2022 Leon Sorokin", "lively: Much happens.", "from 5s to 8s: outage (refuse)",
		"<p>times are rounded to 1s, ",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %s", want)
		}
	}
}

// A day of the most settings that a scenario may have.
func TestSizeIsBounded(t *testing.T) {
	s := lively()
	s.Name, s.About, s.Duration = "", "", seconds(86400)
	s.Events = nil
	r := &simulate.Result{Scenario: s}
	second := make([]float64, 86400)
	for i := range second {
		second[i] = math.Sqrt(float64(i))
	}
	var samples []simulate.Sample
	for i := range 300 {
		at := simulate.Span(seconds(float64(288 * i)))
		samples = append(samples, simulate.Sample{At: at, Value: math.Sqrt(float64(i)), Limited: 1})
	}
	for range 20 {
		r.Outcomes = append(r.Outcomes, simulate.Outcome{Setting: "x", Calls: 1, Series: simulate.Series{
			Started: second, Attempts: second, Good: second, Bad: second, Throttled: second, Errors: second, Lost: second,
			Tokens: samples, SendRate: samples,
		}})
	}
	page := write(t, r, Origin{})
	if len(page) > 8<<20 {
		t.Errorf("the report has %d bytes", len(page))
	}
	if !strings.Contains(page, "Each point is the mean of 44 seconds.") ||
		!strings.Contains(page, "<h1 dir=\"auto\">A simulation</h1>") {
		t.Error("the page does not say what a point is, or has no title")
	}
}

// The library is unchanged since its publication.
func TestLibrary(t *testing.T) {
	for name, want := range map[string]string{
		"uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uPlot.min.css":     "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
		"LICENSE":           "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
	} {
		sum := sha256.Sum256([]byte(text("uplot/" + name)))
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s has the SHA-256 %s, want %s", name, got, want)
		}
	}
}

func TestWriteError(t *testing.T) {
	full, w := io.Pipe()
	full.CloseWithError(io.ErrShortWrite)
	if err := Write(w, result(t), Origin{}); err != io.ErrShortWrite {
		t.Errorf("error %v, want the writer's", err)
	}
}
