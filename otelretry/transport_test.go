package otelretry_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/admission"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/pacer"
	"example.com/awsretry/otelretry"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
)

// What the gauges of a partition show, until Unregister.
func TestGauges(t *testing.T) {
	gauge := func(nameAndUnit string, value any) string {
		return fmt.Sprintf("awsretry.%s awsretry.partition=service.example,%s = %v", nameAndUnit, server, value)
	}
	limit := func(gauge, name string, value any) string {
		return fmt.Sprintf("awsretry.limit.%s[{unit}] awsretry.limit=%s,awsretry.partition=service.example,%s = %v",
			gauge, name, server, value)
	}
	idle := []string{gauge("measured_rate[{response}/s]", 0), gauge("waiting[{request}]", 0)}
	gauges := []string{
		"awsretry.token", "awsretry.retry_after", "awsretry.send", "awsretry.measured", "awsretry.waiting", "awsretry.expected", "awsretry.leased",
		"awsretry.members", "awsretry.fleet", "awsretry.limit",
	}
	shared := new(store)
	for name, tt := range map[string]struct {
		tr      *awsretry.Transport
		base    httpfake.Base // nil responds with 200
		calls   int           // one after the other
		waiting int           // in the line at the end
		grant   *pacer.Grant
		idle    bool // the grant has no lease
		want    []string
	}{
		"legacy":   {tr: &awsretry.Transport{Mode: awsretry.Legacy}, calls: 1},
		"no quota": {tr: &awsretry.Transport{Quota: awsretry.QuotaConfig{Capacity: -1}}, calls: 1},
		"tokens after a retry": {
			tr: &awsretry.Transport{}, base: httpfake.Statuses(500, 500, 500), calls: 1,
			want: []string{gauge("tokens[{token}]", 490), gauge("token_capacity[{token}]", 500)},
		},
		"adaptive": {
			tr: &awsretry.Transport{Mode: awsretry.Adaptive}, calls: 20,
			want: []string{
				gauge("tokens[{token}]", 500), gauge("token_capacity[{token}]", 500),
				gauge("measured_rate[{response}/s]", 9.984), // not 10, because the smoothing began at 0
				gauge("waiting[{request}]", 0), gauge("expected_wait[s]", 0),
			},
		},
		"adaptive after throttling, with a line": {
			tr:   &awsretry.Transport{Mode: awsretry.Adaptive, MaxAttempts: 1},
			base: httpfake.Statuses(429, 200), calls: 1, waiting: 3,
			want: []string{
				gauge("tokens[{token}]", 500), gauge("token_capacity[{token}]", 500), gauge("send_rate[{request}/s]", 0.5), gauge("measured_rate[{response}/s]", 0),
				gauge("waiting[{request}]", 3), gauge("expected_wait[s]", 8), // a token every two seconds
			},
		},
		"a shared Retry-After": {
			tr: &awsretry.Transport{ShareRetryAfter: true, MaxAttempts: 1, RetryAfterSpread: -1}, calls: 1, waiting: 2,
			base: announces(503, "Retry-After", "30"),
			want: []string{
				gauge("tokens[{token}]", 500), gauge("token_capacity[{token}]", 500), gauge("waiting[{request}]", 2),
				gauge("expected_wait[s]", 30), gauge("retry_after[s]", 30),
			},
		},
		"a limit that is used up, with a line": {
			tr: limited(), calls: 1, waiting: 3,
			base: announces(200, "RateLimit-Limit", "100", "RateLimit-Remaining", "0", "RateLimit-Reset", "30",
				"X-RateLimit-Remaining-Tokens", "7000"),
			want: []string{
				gauge("tokens[{token}]", 500), gauge("token_capacity[{token}]", 500), gauge("measured_rate[{response}/s]", 0), gauge("waiting[{request}]", 3),
				gauge("expected_wait[s]", 31.85), // 30 s and one for rounding, half a call ago, and 3 more of 100 in 30 s
				limit("quota", "", 100), limit("remaining", "", 0), limit("remaining", "tokens", 7000),
			},
		},
		"a fleet without a lease": {
			tr: &awsretry.Transport{Mode: awsretry.Adaptive, Shared: new(store)}, calls: 1,
			want: append([]string{
				gauge("tokens[{token}]", 500), gauge("token_capacity[{token}]", 500), gauge("leased[{lease}]", 0), gauge("members[{process}]", 0),
				gauge("expected_wait[s]", 0),
			}, idle...),
		},
		"a fleet": {
			tr: &awsretry.Transport{Mode: awsretry.Adaptive, Shared: shared}, calls: 1,
			grant: &pacer.Grant{Limited: true, Rate: 2, FleetRate: 12.5, Members: 5, FleetTokens: 70},
			want: append([]string{
				gauge("tokens[{token}]", 500), gauge("token_capacity[{token}]", 500), gauge("leased[{lease}]", 1), gauge("members[{process}]", 5),
				gauge("fleet_rate[{request}/s]", 12.5), gauge("fleet_tokens[{token}]", 70), gauge("send_rate[{request}/s]", 2),
				gauge("expected_wait[s]", 0.5),
			}, idle...),
		},
		"a fleet that is idle": {
			tr: &awsretry.Transport{Mode: awsretry.Adaptive, Shared: shared}, calls: 1,
			grant: &pacer.Grant{Members: 5, FleetTokens: 70}, idle: true,
			want: append([]string{
				gauge("tokens[{token}]", 500), gauge("token_capacity[{token}]", 500), gauge("leased[{lease}]", 1), gauge("members[{process}]", 5),
				gauge("fleet_tokens[{token}]", 70), gauge("expected_wait[s]", 0),
			}, idle...),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tt.base == nil {
					tt.base = httpfake.Statuses(200)
				}
				tt.tr.Base = slow(tt.base)
				rt, reader := instrumented(t, tt.tr)
				for range tt.calls {
					get(t, t.Context(), rt)
				}
				var line sync.WaitGroup
				for range tt.waiting {
					line.Go(func() { get(t, t.Context(), rt) })
				}
				synctest.Wait()
				if tt.grant != nil {
					tt.grant.IdleUntil = time.Now().Add(time.Second)
					if !tt.idle {
						tt.grant.Until = tt.grant.IdleUntil
					}
					shared.share.Grant(*tt.grant)
				}
				wantMetrics(t, reader, tt.want, gauges...)
				if err := rt.Unregister(); err != nil {
					t.Error(err)
				}
				wantMetrics(t, reader, nil, gauges...)
				if n := len(collected(t, reader, "client.call.attempts")); (n > 0) != (tt.calls > 0) {
					t.Errorf("after Unregister there are %d counters of attempts", n)
				}
				line.Wait()
			})
		})
	}
}

func limited() *awsretry.Transport {
	return &awsretry.Transport{Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{Limits: awsretry.ReadLimits}}
}

// announces responds with that status and header.
func announces(status int, header ...string) httpfake.Base {
	return func(req *http.Request) (*http.Response, error) {
		return httpfake.Response(req, status, http.NoBody, header...), nil
	}
}

// The gauges show 1500 limits at once at most, those of the partitions that were
// used last, and 50 names of limits, however many the services announce.
func TestSeriesOfLimitsAreLimited(t *testing.T) {
	for name, tt := range map[string]struct {
		partitions int
		announced  string // as RateLimit, with the number of the partition
		want       int
	}{
		"new names": {partitions: 200, announced: `"policy-%d";r=5;t=60`, want: 50},
		"many partitions": {
			partitions: 600, announced: `"a";r=5;t=60, "b";r=5;t=60, "c";r=5;t=60;p=%d`, want: 1500,
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := 0
			rt, reader := instrumented(t, &awsretry.Transport{
				Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
					return httpfake.Response(req, 200, http.NoBody, "RateLimit", fmt.Sprintf(tt.announced, i)), nil
				}),
				Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{Limits: awsretry.ReadLimits},
			})
			for i = range tt.partitions {
				get(t, awsretry.WithPartition(t.Context(), fmt.Sprint("tenant ", i)), rt)
			}
			for range 2 {
				if got := collected(t, reader, "awsretry.limit.remaining"); len(got) != tt.want {
					t.Errorf("%d limits, want %d", len(got), tt.want)
				}
			}
			last := fmt.Sprintf("tenant %d,", tt.partitions-1)
			if got := strings.Join(collected(t, reader, "awsretry.limit"), "\n"); tt.want == 1500 &&
				!strings.Contains(got, last) {
				t.Errorf("the limits of %s are not there", last)
			}
		})
	}
}

// A store grants what it is asked to.
type store struct{ share *admission.Share }

func (s *store) Validate(awsretry.Mode) error { return nil }
func (*store) FirstRate() float64             { return 0 }
func (s *store) Join(share *admission.Share)  { s.share = share }

// Observe may be set until the first request, which reads it. Every attempt is
// recorded once, and the Observe that was set last is called.
func TestObserve(t *testing.T) {
	var before, seen int
	count := func(awsretry.Attempt) { seen++ }
	for name, tt := range map[string]struct {
		set    func(*otelretry.Transport, *awsretry.Transport)
		before int // calls of the Observe before NewTransport, of two attempts
		want   int // calls of count
	}{
		"set on the outer Transport": {func(rt *otelretry.Transport, _ *awsretry.Transport) { rt.Observe = count }, 0, 2},
		"cleared":                    {func(rt *otelretry.Transport, _ *awsretry.Transport) { rt.Observe = nil }, 0, 0},
		"wrapped": {func(rt *otelretry.Transport, _ *awsretry.Transport) {
			next := rt.Observe
			rt.Observe = func(a awsretry.Attempt) { count(a); next(a); count(a) }
		}, 2, 4},
		"used from inside, then set": {func(rt *otelretry.Transport, tr *awsretry.Transport) {
			req, _ := http.NewRequest("GET", "http://service.example/", nil)
			send(tr, req)
			rt.Observe = count // too late, as for any Transport
		}, 3, 0},
	} {
		for _, observe := range []func(awsretry.Attempt){nil, func(awsretry.Attempt) { before++ }} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tr := &awsretry.Transport{Base: httpfake.Statuses(503, 200), Observe: observe}
					rt, reader := instrumented(t, tr)
					before, seen = 0, 0
					tt.set(rt, tr)
					get(t, t.Context(), rt)
					if seen != tt.want || observe != nil && before != tt.before {
						t.Errorf("Observe was called %d times, want %d, and the one before %d times, want %d",
							seen, tt.want, before, tt.before)
					}
					got := collected(t, reader, "client.call.attempts")
					if len(got) < 2 || !strings.HasSuffix(got[len(got)-1], " = 1") {
						t.Errorf("recorded: %q", got)
					}
				})
			})
		}
	}
}

func TestNewTransportFails(t *testing.T) {
	used := &awsretry.Transport{Base: httpfake.Statuses(200)}
	get(t, t.Context(), used)
	metered := new(awsretry.Transport)
	if _, err := otelretry.NewTransport(metered, noop.NewMeterProvider()); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		tr   *awsretry.Transport
		want string
	}{
		"metered": {metered, "otelretry: the Transport records its metrics already"},
		"nil":     {nil, "otelretry: the Transport is nil"},
		"used":    {used, `otelretry: the Transport has sent a request to "service.example"`},
	} {
		t.Run(name, func(t *testing.T) {
			rt, err := otelretry.NewTransport(tt.tr, nil)
			if rt != nil || err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%v, %v; want an error that begins with %q", rt, err, tt.want)
			}
			if tt.tr != nil && tt.tr != metered && tt.tr.Observe != nil {
				t.Error("Observe is set")
			}
		})
	}
}

func TestGlobalMeterProvider(t *testing.T) {
	before := otel.GetMeterProvider()
	defer otel.SetMeterProvider(before)
	reader := sdk.NewManualReader()
	otel.SetMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader)))
	rt, err := otelretry.NewTransport(&awsretry.Transport{Base: httpfake.Statuses(200)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	get(t, t.Context(), rt)
	if got := collected(t, reader, "client.call.attempts", "awsretry.tokens"); len(got) != 2 {
		t.Errorf("recorded: %q", got)
	}
}

// A RoundTripper of this package around a Transport shows it: another Transport
// cannot retry its retries. CloseIdleConnections reaches Base.
func TestInnerTransportIsVisible(t *testing.T) {
	base := new(idler)
	metered, _ := instrumented(t, &awsretry.Transport{Base: base})
	for name, rt := range map[string]http.RoundTripper{
		"Transport": metered, "ResendCount": &otelretry.ResendCount{Base: &awsretry.Transport{Base: base}},
	} {
		base.closed = 0
		(&http.Client{Transport: rt}).CloseIdleConnections()
		if base.closed != 1 {
			t.Errorf("%s: CloseIdleConnections reached Base %d times, want 1", name, base.closed)
		}
		if (&awsretry.Transport{Base: rt}).Validate() == nil {
			t.Errorf("%s: a Transport that sends through it is valid", name)
		}
	}
	(&otelretry.ResendCount{Base: httpfake.Statuses(200)}).CloseIdleConnections() // which has no such method
}

// An idler is a Base that counts the calls of CloseIdleConnections.
type idler struct {
	httpfake.Base
	closed int
}

func (i *idler) CloseIdleConnections() { i.closed++ }

func TestMetricsDoNotAllocate(t *testing.T) {
	req := request(t, t.Context(), "GET", "http://service.example/")
	bare := &awsretry.Transport{Base: httpfake.Statuses(200)}
	metered, _ := instrumented(t, &awsretry.Transport{Base: httpfake.Statuses(200)})
	count := func(rt http.RoundTripper) float64 { return testing.AllocsPerRun(200, func() { send(rt, req) }) }
	if without, with := count(bare), count(metered); with > without {
		t.Errorf("%v allocations for a request with metrics, %v without", with, without)
	}
}
