package chart

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

func seconds(s float64) scenario.Duration { return scenario.Duration(s * float64(time.Second)) }

func ms(n float64) scenario.Duration { return seconds(n / 1000) }

func mustRun(t *testing.T, s scenario.Scenario) *simulate.Result {
	t.Helper()
	r, err := simulate.Run(t.Context(), s, simulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tiny is one caller whose calls take 100 ms.
func tiny(settings ...scenario.Setting) scenario.Scenario {
	return scenario.Scenario{
		Name: "tiny", Duration: seconds(10), Seed: 1,
		Clients:  scenario.Clients{Count: 1, Callers: 1},
		Service:  scenario.Service{Capacity: 1000, Queue: 10, Latency: scenario.Latency{Median: ms(97)}},
		Settings: settings,
	}
}

// made returns a result of a scenario that was not run. Its curves are flat.
func made(s scenario.Scenario, load float64) *simulate.Result {
	if len(s.Settings) == 0 {
		s.Settings = scenario.DefaultSettings()
	}
	r := &simulate.Result{Scenario: s}
	seconds := int(time.Duration(s.Duration) / time.Second)
	for _, setting := range s.Settings {
		o := simulate.Outcome{
			Setting: setting.Label(), Calls: 1, Good: 1,
			Amplification: 1234.56, FailedShare: 1, P99: simulate.Span(time.Hour),
		}
		o.Series.Attempts, o.Series.Good = slices.Repeat([]float64{load}, seconds), make([]float64, seconds)
		o.Series.Attempts[seconds-1] = 1e6
		bucket := []simulate.Sample{
			{At: 0, Value: 500, Limited: 1}, {At: simulate.Span(s.Duration), Value: 500, Limited: 10_000},
		}
		switch setting.Use {
		case scenario.UseAdaptive:
			o.Series.Tokens, o.Series.SendRate = bucket, bucket
		case scenario.UseStandard:
			o.Series.Tokens = bucket
		}
		r.Outcomes = append(r.Outcomes, o)
	}
	return r
}

// busy returns a scenario with so many settings and events.
func busy(settings, events int) scenario.Scenario {
	s := scenario.Scenario{
		Name: "busy", About: "Much happens.", Duration: seconds(60),
		Clients: scenario.Clients{Count: 100, Rate: 300}, Service: scenario.Service{Capacity: 360, Queue: 1080},
	}
	uses := []string{
		scenario.UseAdaptive, scenario.UseStandard, scenario.UseNone, scenario.UseNaive,
		scenario.UseLegacy, scenario.UseRevision2026, scenario.UseAdaptive, scenario.UseStandard,
	}
	for i := range settings {
		s.Settings = append(s.Settings, scenario.Setting{Use: uses[i], Name: fmt.Sprintf("setting %d", i)})
	}
	for i := range events {
		from := 60 * float64(i) / float64(events)
		s.Events = append(s.Events, scenario.Event{
			Kind: scenario.Herd, From: seconds(from), To: seconds(min(from+2, 60)), Calls: 1000,
		})
	}
	return s
}

var textElement = regexp.MustCompile(`<text [^>]*>([^<]*)</text>`)

// texts counts the texts of a picture.
func texts(t *testing.T, r *simulate.Result) map[string]int {
	t.Helper()
	var b bytes.Buffer
	if err := Draw(&b, r, SVG); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, match := range textElement.FindAllStringSubmatch(b.String(), -1) {
		count[match[1]]++
	}
	return count
}
