package otelretry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/admission"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/pacer"
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
// all is well, and so does the README's query of who is almost out of tokens. The
// series are those that a Transport makes in seventeen minutes, of which the last
// fourteen have the incident.
func TestAlerts(t *testing.T) {
	const server, partition = `server_address="service.example",server_port="80"`, `awsretry_partition="service.example"`
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	query := regexp.MustCompile(`(?m)^.*awsretry_tokens .*$`).Find(readme)
	heldBack := map[string]string{"CallsRefused": `awsretry_stop="rate_limit",` + server, "CallsWait": partition}
	unavailable := httpfake.Statuses(503)
	for _, tt := range []struct {
		name  string
		tr    *awsretry.Transport
		base  httpfake.Base     // in the incident
		few   bool              // the tokens are almost used up
		fires map[string]string // alerts with their labels
	}{
		{"a retry now and then", &awsretry.Transport{}, everyNth(40, 503), false, nil},
		{"the service is down", &awsretry.Transport{}, unavailable, true, map[string]string{
			"RequestsFail": server, "CallsRefused": `awsretry_stop="quota",` + server,
		}},
		{"every other attempt fails", &awsretry.Transport{}, everyNth(2, 503), false, map[string]string{
			"RequestsFail": server, "RetriesAmplify": server,
		}},
		{"a fleet", inFleet(leased), everyNth(40, 503), false, nil},
		{"the service of a fleet is down", inFleet(leased), unavailable, true, map[string]string{
			"RequestsFail": server, "CallsRefused": `awsretry_stop="quota",` + server,
		}},
		{"the store of a fleet is lost", inFleet(lost), everyNth(40, 503), false, map[string]string{"NoLease": partition}},
		{"that and the service are down", inFleet(lost), unavailable, true, map[string]string{
			"NoLease": partition, "RequestsFail": server, "CallsRefused": `awsretry_stop="quota",` + server,
		}},
		{"a fleet is paced", inFleet(paced), everyNth(40, 503), false, heldBack},
		{"a fleet stands still", inFleet(withoutSlots(1000)), everyNth(40, 503), false, map[string]string{
			"NothingSent": partition, "CallsRefused": `awsretry_stop="deadline",` + server,
		}},
		{"a fleet stands still at a low rate", inFleet(withoutSlots(0.001)), everyNth(40, 503), false, map[string]string{
			"NothingSent": partition, "CallsWait": partition, "CallsRefused": `awsretry_stop="rate_limit",` + server,
		}},
		{"it asks for 15 minutes", &awsretry.Transport{ShareRetryAfter: true, MaxRetryAfter: time.Hour}, announces(503, "Retry-After", "900"), false, heldBack},
		{"its limit is used up for two hours", limited(),
			announces(429, "RateLimit-Limit", "100", "RateLimit-Remaining", "0", "RateLimit-Reset", "7200"), false, heldBack},
		{"it asks for 45 seconds", &awsretry.Transport{ShareRetryAfter: true},
			announces(503, "Retry-After", "45"), false, map[string]string{
				"RequestsFail": server, "CallsRefused": `awsretry_stop="rate_limit",` + server,
				"CallsWait": partition,
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
			for _, alert := range []string{"RequestsFail", "RetriesAmplify", "CallsRefused", "CallsWait", "NoLease", "NothingSent"} {
				silent += fmt.Sprintf("  - {eval_time: 3m, alertname: %s}\n", alert)
				labels, fires := tt.fires[alert]
				if !fires {
					silent += fmt.Sprintf("  - {eval_time: 17m, alertname: %s}\n", alert)
					continue
				}
				// Only that it fires is of interest, not the number in its summary.
				firing += fmt.Sprintf("  - {expr: 'count(ALERTS{alertname=%q,alertstate=\"firing\",%s})', "+
					"eval_time: 17m, exp_samples: [{labels: '{}', value: 1}]}\n", alert, labels)
			}
			few := 0
			if tt.few {
				few = 1
			}
			firing += fmt.Sprintf("  - {expr: 'count(%s) or vector(0)', eval_time: 2m, exp_samples: [{labels: '{}', value: 0}]}\n"+
				"  - {expr: 'count(%[1]s) or vector(0)', eval_time: 17m, exp_samples: [{labels: '{}', value: %d}]}\n", query, few)
			promtool(t, fmt.Sprintf("rule_files: [%q]\ntests:\n- interval: 1m\n  input_series:\n%s"+
				"  alert_rule_test:\n%s  promql_expr_test:\n%s", rules, series, silent, firing), "test", "rules")
		})
	}
}

// A granter is a Shared that does what package fleet does in each of five processes,
// as far as metrics show it.
type granter struct {
	store
	grant   func(g *pacer.Grant) (granted bool) // in the incident
	closed  atomic.Bool
	members sync.WaitGroup
}

func inFleet(grant func(g *pacer.Grant) bool) *awsretry.Transport {
	return &awsretry.Transport{Mode: awsretry.Adaptive, Shared: &granter{grant: grant}}
}

func leased(*pacer.Grant) bool { return true }

func lost(*pacer.Grant) bool { return false }

func paced(g *pacer.Grant) bool {
	g.Limited, g.Rate = true, 5
	return true
}

func withoutSlots(rate float64) func(*pacer.Grant) bool {
	return func(g *pacer.Grant) bool {
		g.Limited, g.Rate, g.AloneAtMost = true, rate, 10
		return true
	}
}

func (g *granter) Join(share *admission.Share) {
	const kept, lease = 15, 400 * time.Millisecond // as in package fleet, with the default Quota
	left, began := share.FirstTokens(), time.Now()
	share.TakeTokens(math.MaxInt32)
	g.members.Go(func() {
		for ; !g.closed.Load(); time.Sleep(lease / 2) {
			grant := pacer.Grant{Until: time.Now().Add(lease), Members: 5}
			if time.Since(began) > 3*time.Minute && !g.grant(&grant) {
				continue
			}
			if n := share.Usage().Tokens; n < kept {
				n = min(kept-n, left)
				share.AddTokens(n)
				left -= n
			} else if n > 2*kept {
				left += share.TakeTokens(n - kept)
			}
			grant.FleetTokens = left
			share.Grant(grant)
		}
	})
}

// everyNth returns a Base whose every nth response has that status.
func everyNth(n, status int) httpfake.Base {
	return httpfake.Statuses(slices.Repeat(append(slices.Repeat([]int{200}, n-1), status), 20_000/n)...)
}

// minutes sends ten calls a second for seventeen minutes, and returns what a scrape
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
	if g, ok := tr.Shared.(*granter); ok {
		defer g.members.Wait()
		defer g.closed.Store(true)
	}
	tr.Backoff = awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return 50 * time.Millisecond })
	rt, err := otelretry.NewTransport(tr, metric.NewMeterProvider(metric.WithReader(exporter)))
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string][]string)
	for minute := range 18 {
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
