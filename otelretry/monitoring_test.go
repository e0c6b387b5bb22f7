package otelretry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/otelretry"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

const monitoring = "../docs/monitoring/"

// promtool runs Prometheus's tool on a file of that content.
func promtool(t *testing.T, content string, args ...string) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not in PATH")
	}
	file := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.CommandContext(t.Context(), tool, append(args, file)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, output, content)
	}
}

// Each alert fires in its incident, with the name of the service, and none while
// all is well. The series are those that a Transport makes in ten minutes, of
// which the last seven have the incident.
func TestAlerts(t *testing.T) {
	const server = `server_address="service.example",server_port="80"`
	unavailable := httpfake.Statuses(503)
	for _, tt := range []struct {
		name  string
		tr    *awsretry.Transport
		base  httpfake.Base     // in the incident
		fires map[string]string // alerts with their labels
	}{
		{"a retry now and then", &awsretry.Transport{}, everyNth(40, 503), nil},
		{"the service is down", &awsretry.Transport{}, unavailable, map[string]string{
			"RequestsFail": server, "CallsRefused": `awsretry_stop="quota",` + server,
		}},
		{"every other attempt fails", &awsretry.Transport{}, everyNth(2, 503), map[string]string{
			"RequestsFail": server, "RetriesAmplify": server,
		}},
		{"it asks for 45 seconds", &awsretry.Transport{ShareRetryAfter: true},
			func(req *http.Request) (*http.Response, error) {
				return httpfake.Response(req, 503, http.NoBody, "Retry-After", "45"), nil
			}, map[string]string{
				"RequestsFail": server, "CallsRefused": `awsretry_stop="rate_limit",` + server,
				"CallsWait": `awsretry_partition="service.example"`,
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var series string
			synctest.Test(t, func(t *testing.T) { series = minutes(t, tt.tr, tt.base) })
			rules, err := filepath.Abs(monitoring + "alerts.yaml")
			if err != nil {
				t.Fatal(err)
			}
			var silent, firing string
			for _, alert := range []string{"RequestsFail", "RetriesAmplify", "CallsRefused", "CallsWait"} {
				silent += fmt.Sprintf("  - {eval_time: 3m, alertname: %s}\n", alert)
				labels, fires := tt.fires[alert]
				if !fires {
					silent += fmt.Sprintf("  - {eval_time: 10m, alertname: %s}\n", alert)
					continue
				}
				// Only that it fires is of interest, not the number in its summary.
				firing += fmt.Sprintf("  - {expr: 'count(ALERTS{alertname=%q,alertstate=\"firing\",%s})', "+
					"eval_time: 10m, exp_samples: [{labels: '{}', value: 1}]}\n", alert, labels)
			}
			promtool(t, fmt.Sprintf("rule_files: [%q]\ntests:\n- interval: 1m\n  input_series:\n%s"+
				"  alert_rule_test:\n%s  promql_expr_test:\n%s", rules, series, silent, firing), "test", "rules")
		})
	}
}

// everyNth returns a Base whose every nth response has that status.
func everyNth(n, status int) httpfake.Base {
	return httpfake.Statuses(slices.Repeat(append(slices.Repeat([]int{200}, n-1), status), 20_000/n)...)
}

// minutes sends ten calls a second for ten minutes, and returns what a scrape
// each minute sees, as promtool's input_series.
func minutes(t *testing.T, tr *awsretry.Transport, incident httpfake.Base) string {
	registry := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
	if err != nil {
		t.Fatal(err)
	}
	var begun atomic.Bool
	tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
		if begun.Load() {
			return incident(req)
		}
		return httpfake.Empty(200, req), nil
	})
	tr.Backoff = awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return 50 * time.Millisecond })
	rt, err := otelretry.NewTransport(tr, metric.NewMeterProvider(metric.WithReader(exporter)))
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string][]string)
	for minute := range 11 {
		begun.Store(minute >= 3)
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				get(t, ctx, rt)
			}()
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if m.Histogram != nil {
					continue
				}
				name := f.GetName() + labelsOf(m)
				for len(values[name]) < minute {
					values[name] = append(values[name], "_")
				}
				values[name] = append(values[name], fmt.Sprint(m.GetCounter().GetValue()+m.GetGauge().GetValue()))
			}
		}
	}
	var series []string
	for name, v := range values {
		series = append(series, fmt.Sprintf("  - series: '%s'\n    values: '%s'\n", name, strings.Join(v, " ")))
	}
	slices.Sort(series)
	return strings.Join(series, "")
}

func labelsOf(m *dto.Metric) string {
	var labels []string
	for _, l := range m.GetLabel() {
		labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	return "{" + strings.Join(labels, ",") + "}"
}

// Every expression of the dashboard is valid, and names metrics that the README
// has.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(monitoring + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil || len(dashboard.Panels) == 0 {
		t.Fatalf("%d panels: %v", len(dashboard.Panels), err)
	}
	readme := strings.ReplaceAll(words(t, "README.md"), ".", "_")
	rules := "groups:\n- name: dashboard\n  rules:\n"
	for i, panel := range dashboard.Panels {
		for j, target := range panel.Targets {
			expr := strings.NewReplacer("$__rate_interval", "5m", "$server", ".*").Replace(target.Expr)
			rules += fmt.Sprintf("  - {record: 'p%d_%d', expr: %q}\n", i, j, expr)
			for _, name := range regexp.MustCompile(`(client_call|awsretry)_[a-z_]+`).FindAllString(expr, -1) {
				bare := regexp.MustCompile(`(_total|_seconds_bucket|_seconds)$`).ReplaceAllString(name, "")
				if !strings.Contains(readme, "`"+bare+"`") {
					t.Errorf("%s: the README has no %s", panel.Title, name)
				}
			}
		}
	}
	promtool(t, rules, "check", "rules")
}
