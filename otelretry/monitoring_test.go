package otelretry_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
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
	const server, partition = `job="shop",server_address="service.example",server_port="80"`, `job="shop",awsretry_partition="service.example"`
	rules, err := os.ReadFile(monitoring + "alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`alert: (\w+)`).FindAllSubmatch(rules, -1)
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	query := regexp.MustCompile(`(?m)^.*awsretry_tokens .*$`).Find(readme)
	heldBack := map[string]string{"CallsRefused": `awsretry_stop="rate_limit",` + server, "CallsWait": partition}
	unavailable := httpfake.Statuses(503)
	for _, tt := range []struct {
		name  string
		tr    *awsretry.Transport // nil means the zero Transport
		base  httpfake.Base       // in the incident
		hosts int                 // that the calls go to; 0 means one
		few   bool                // the tokens are almost used up
		fires map[string]string   // alerts with their labels
		also  string              // series of another program
	}{
		{name: "a retry now and then", base: everyNth(40, 503)},
		{name: "one in five is not found", base: everyNth(5, 404)},
		{name: "one in five is canceled", base: cancelsEvery(5)},
		{name: "hundreds of hosts, of which each fails now and then", base: failsAtRandom(0.02), hosts: 400},
		{name: "the service is down", base: unavailable, few: true, fires: map[string]string{
			"RequestsFail": server, "CallsRefused": `awsretry_stop="quota",` + server,
		}},
		{
			name: "the service is down for one program of two", base: unavailable, few: true,
			fires: map[string]string{"RequestsFail": server, "CallsRefused": `awsretry_stop="quota",` + server},
			also:  instances(30, minutes(t, "busy", "INSTANCE", new(awsretry.Transport), everyNth(40, 503), 1)),
		},
		{name: "it hangs until the callers' deadline", base: hangs, fires: map[string]string{
			"RequestsFail": server,
		}},
		{name: "the credentials have expired", base: httpfake.Statuses(403), fires: map[string]string{"RequestsRejected": server}},
		{name: "every other attempt fails", base: everyNth(2, 503), fires: map[string]string{
			"RequestsFail": server, "RetriesAmplify": server,
		}},
		{name: "a fleet", tr: inFleet(leased), base: everyNth(40, 503)},
		{name: "the service of a fleet is down", tr: inFleet(leased), base: unavailable, few: true, fires: map[string]string{
			"RequestsFail": server, "CallsRefused": `awsretry_stop="quota",` + server,
		}},
		{name: "the store of a fleet is lost", tr: inFleet(lost), base: everyNth(40, 503), fires: map[string]string{"StoreLost": `job="shop"`}},
		{
			name: "one process of a fleet has no lease", tr: inFleet(leased), base: everyNth(40, 503),
			fires: map[string]string{"NoLease": `instance="lost",` + partition},
			also:  minutes(t, "shop", "lost", inFleet(lost), everyNth(40, 503), 1),
		},
		{name: "that and the service are down", tr: inFleet(lost), base: unavailable, few: true, fires: map[string]string{
			"StoreLost": `job="shop"`, "RequestsFail": server, "CallsRefused": `awsretry_stop="quota",` + server,
		}},
		{name: "a fleet is paced", tr: inFleet(paced), base: everyNth(40, 503), fires: heldBack},
		{name: "a fleet stands still", tr: inFleet(withoutSlots(1000)), base: everyNth(40, 503), fires: map[string]string{
			"NothingSent": partition, "CallsRefused": `awsretry_stop="deadline",` + server,
		}},
		{name: "a fleet stands still at a low rate", tr: inFleet(withoutSlots(0.001)), base: everyNth(40, 503), fires: map[string]string{
			"NothingSent": partition, "CallsWait": partition, "CallsRefused": `awsretry_stop="rate_limit",` + server,
		}},
		{
			name: "it asks for 15 minutes", tr: &awsretry.Transport{ShareRetryAfter: true, MaxRetryAfter: time.Hour},
			base: announces(503, "Retry-After", "900"), fires: heldBack,
		},
		{
			name: "its limit is used up for two hours", tr: limited(),
			base: announces(429, "RateLimit-Limit", "100", "RateLimit-Remaining", "0", "RateLimit-Reset", "7200"),
			fires: map[string]string{
				"LimitNearlyUsed": partition, "CallsRefused": `awsretry_stop="rate_limit",` + server, "CallsWait": partition,
			},
		},
		{
			name: "its limit is nearly used up", tr: limited(),
			base:  announces(200, "RateLimit-Limit", "1000000", "RateLimit-Remaining", "90000", "RateLimit-Reset", "60"),
			fires: map[string]string{"LimitNearlyUsed": partition},
		},
		{
			name: "it asks for 45 seconds", tr: &awsretry.Transport{ShareRetryAfter: true},
			base: announces(503, "Retry-After", "45"), fires: map[string]string{
				"RequestsFail": server, "CallsRefused": `awsretry_stop="rate_limit",` + server,
				"CallsWait": partition,
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			series := minutes(t, "shop", "1", cmp.Or(tt.tr, new(awsretry.Transport)), tt.base, max(tt.hosts, 1)) + tt.also
			rules, err := filepath.Abs(monitoring + "alerts.yaml")
			if err != nil {
				t.Fatal(err)
			}
			var silent, firing string
			for _, alert := range names {
				silent += fmt.Sprintf("  - {eval_time: 3m, alertname: %s}\n", alert[1])
				labels, fires := tt.fires[string(alert[1])]
				if !fires {
					silent += fmt.Sprintf("  - {eval_time: 17m, alertname: %s}\n", alert[1])
					continue
				}
				// Only that it fires is of interest, not the number in its summary.
				firing += fmt.Sprintf("  - {expr: 'count(ALERTS{alertname=%q,alertstate=\"firing\",%s})', "+
					"eval_time: 17m, exp_samples: [{labels: '{}', value: 1}]}\n", alert[1], labels)
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

// A summary has numbers as people write them. That nothing is sent to a partition
// is not known if attempts are counted without its name.
func TestAlertsOfSeries(t *testing.T) {
	rules, err := filepath.Abs(monitoring + "alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	promtool(t, fmt.Sprintf(`rule_files: [%q]
tests:
- interval: 1m
  input_series:
  - series: awsretry_refusals_total{job="shop",server_address="service.example",server_port="80",awsretry_stop="quota"}
    values: 0+48x10
  - {series: 'awsretry_waiting{job="shop",awsretry_partition="a"}', values: 3x10}
  - {series: 'awsretry_waiting{job="crawler",awsretry_partition="a"}', values: 3x10}
  - {series: 'client_call_attempts_total{job="crawler",awsretry_partition="_OTHER",awsretry_class="success"}', values: 0+48x10}
  alert_rule_test:
  - eval_time: 10m
    alertname: CallsRefused
    exp_alerts:
    - exp_labels: {job: shop, server_address: service.example, server_port: "80", awsretry_stop: quota}
      exp_annotations: {summary: "0.8 calls a second of shop to service.example:80 end with quota"}
  - eval_time: 10m
    alertname: NothingSent
    exp_alerts:
    - exp_labels: {job: shop, awsretry_partition: a}
      exp_annotations: {summary: "calls of shop to a wait or are refused, and none is sent"}
`, rules), "test", "rules")
}

// instances returns the series of n processes that do the same.
func instances(n int, series string) (all string) {
	for i := range n {
		all += strings.ReplaceAll(series, "INSTANCE", fmt.Sprint(i))
	}
	return all
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

// failsAtRandom returns a Base of which that share of the responses is a 503.
func failsAtRandom(share float64) httpfake.Base {
	r := rand.New(rand.NewPCG(1, 0))
	var mu sync.Mutex
	return func(req *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		if r.Float64() < share {
			return httpfake.Empty(503, req), nil
		}
		return httpfake.Empty(200, req), nil
	}
}

// A cancelKey is the context key of what cancels a call of minutes.
type cancelKey struct{}

// cancelsEvery returns a Base that is canceled by the caller of every nth request.
func cancelsEvery(n int64) httpfake.Base {
	var sent atomic.Int64
	return func(req *http.Request) (*http.Response, error) {
		if sent.Add(1)%n > 0 {
			return httpfake.Empty(200, req), nil
		}
		req.Context().Value(cancelKey{}).(context.CancelFunc)()
		return hangs(req)
	}
}

func hangs(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// minutes sends ten calls a second for seventeen minutes, in virtual time, and
// returns what a scrape each minute sees, as promtool's input_series.
func minutes(t *testing.T, job, instance string, tr *awsretry.Transport, incident httpfake.Base, hosts int) (series string) {
	synctest.Test(t, func(t *testing.T) {
		values := scrapes(t, tr, incident, hosts)
		for _, name := range slices.Sorted(maps.Keys(values)) {
			series += fmt.Sprintf("  - series: '%s'\n    values: '%s'\n",
				strings.Replace(name, "{", fmt.Sprintf("{job=%q,instance=%q,", job, instance), 1), strings.Join(values[name], " "))
		}
	})
	return series
}

// scrapes returns the values of each series in each minute.
func scrapes(t *testing.T, tr *awsretry.Transport, incident httpfake.Base, hosts int) map[string][]string {
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
		for n := range 600 {
			time.Sleep(100 * time.Millisecond)
			url := "http://service.example/"
			if hosts > 1 {
				url = fmt.Sprintf("http://h%d.example/", (600*minute+n)%hosts)
			}
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				send(rt, request(t, context.WithValue(ctx, cancelKey{}, cancel), "GET", url))
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
	return values
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
