package traffic

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dustin/go-humanize"

	"example.com/awsretry/simulate/scenario"
)

// The simulation of the present setting reproduces what was recorded in logs of
// real servers. RECORD=1 go test -run TestRecordTraffic in interop writes the logs,
// with the figures of their callers.
func TestRecorded(t *testing.T) {
	for _, tt := range []struct {
		name  string // of the files
		check func(t *testing.T, s scenario.Scenario)
	}{
		{"nginx", func(t *testing.T, s scenario.Scenario) { // limit_req rate=40r/s, burst=10 nodelay
			near(t, "throttle.rate", s.Service.Throttle.Rate, 40, 0.03)
			near(t, "throttle.burst", s.Service.Throttle.Burst, 11, 0.3)
			near(t, "rate", s.Clients.Rate, 50, 0.05)
			if s.Service.Throttle.Code != "SlowDown" {
				t.Errorf("the throttle is %+v", s.Service.Throttle)
			}
		}},
		{"dynalite", func(t *testing.T, s scenario.Scenario) { // 6 % of the requests are throttled, 3 % fail
			near(t, "throttle.share", s.Service.Throttle.Share, 0.06, 0.3)
			near(t, "errors", s.Events[0].Share, 0.03, 0.3)
			near(t, "callers", float64(s.Clients.Callers), 10, 0.2)
			if s.Service.Throttle.Code != "ProvisionedThroughputExceededException" {
				t.Errorf("the throttle is %+v", s.Service.Throttle)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log, err := os.ReadFile(filepath.Join("testdata", tt.name+".jsonl.gz"))
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join("testdata", tt.name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var was struct {
				Seconds  float64
				Attempts int64
				Good     float64
				P50      float64 `json:"p50_seconds"`
				P99      float64 `json:"p99_seconds"`
			}
			if err := json.Unmarshal(text, &was); err != nil {
				t.Fatal(err)
			}
			f := fitted(t, log)
			tt.check(t, f.Scenario)
			is := present(t, f.Scenario)
			documented(t, fmt.Sprintf("recorded | %.1f/s | %s | %.1f ms | %.2f s |", was.Good/was.Seconds,
				humanize.Comma(was.Attempts), 1000*was.P50, was.P99))
			documented(t, fmt.Sprintf("simulated | %.1f/s | %s | %.1f ms | %.2f s |", is.Goodput,
				humanize.Comma(is.Attempts), float64(is.P50)/float64(ms(1)), float64(is.P99)/float64(second)))
			near(t, "goodput", is.Goodput, was.Good/was.Seconds, 0.1)
			near(t, "attempts", float64(is.Attempts), float64(was.Attempts), 0.1)
			near(t, "p50", float64(is.P50)/float64(second), was.P50, 0.1)
			near(t, "p99", float64(is.P99)/float64(second), was.P99, 0.25)
		})
	}
}

// documented fails if docs/results/traffic.md does not have the text.
func documented(t *testing.T, text string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/results/traffic.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), text) {
		t.Errorf("docs/results/traffic.md does not have:\n%s", text)
	}
}
