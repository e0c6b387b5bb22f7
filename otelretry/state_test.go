package otelretry_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/sharing"
	"example.com/awsretry/otelretry"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
)

func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, reader := instrumented(t, &awsretry.Transport{Base: httpfake.Statuses(500, 500, 500, 200)})
		wantMetrics(t, reader, nil, "awsretry.")
		get(t, t.Context(), rt)
		get(t, awsretry.WithPartition(t.Context(), "table \xff"), rt)
		want := []string{
			"awsretry.tokens[{token}] awsretry.partition=service.example = 490",
			"awsretry.tokens[{token}] awsretry.partition=table \uFFFD = 500",
		}
		wantMetrics(t, reader, want, "awsretry.tokens", "awsretry.send_rate", "awsretry.measured_rate")

		if err := rt.Unregister(); err != nil {
			t.Fatal(err)
		}
		get(t, t.Context(), rt)
		got := collected(t, reader, "awsretry.tokens", "client.call.attempts")
		if slices.ContainsFunc(got, func(l string) bool { return strings.HasPrefix(l, "awsretry.tokens") }) {
			t.Errorf("the gauge exists: %q", got)
		}
		if !slices.ContainsFunc(got, func(l string) bool {
			return strings.Contains(l, "partition=service.example,") &&
				strings.Contains(l, "status_code=200,"+server+" = 1")
		}) {
			t.Errorf("attempts are not counted: %q", got)
		}
	})
}

func TestNoTokens(t *testing.T) {
	for name, tr := range map[string]*awsretry.Transport{
		"legacy":   {Mode: awsretry.Legacy},
		"no quota": {Quota: awsretry.QuotaConfig{Capacity: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr.Base = httpfake.Statuses(200)
				rt, reader := instrumented(t, tr)
				get(t, t.Context(), rt)
				wantMetrics(t, reader, nil, "awsretry.")
			})
		})
	}
}

func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := 200
		rt, reader := instrumented(t, &awsretry.Transport{
			Mode: awsretry.Adaptive, MaxAttempts: 1,
			Base: slow(func(req *http.Request) (*http.Response, error) {
				return httpfake.Response(req, status, http.NoBody), nil
			}),
		})
		for range 20 {
			get(t, t.Context(), rt)
		}
		state, _ := rt.State("service.example")
		if state.Limited || state.MeasuredRate < 5 {
			t.Fatalf("%+v: it must measure, and not limit", state)
		}
		gauges := []string{"awsretry.send_rate", "awsretry.measured_rate"}
		measured := "awsretry.measured_rate[{response}/s] awsretry.partition=service.example = "
		wantMetrics(t, reader, []string{measured + "9.984"}, gauges...)

		status = 429
		get(t, t.Context(), rt)
		wantMetrics(t, reader, []string{
			measured + "9.984", // not 10, because the smoothing began at 0
			"awsretry.send_rate[{request}/s] awsretry.partition=service.example = 6.989", // beta is 0.7
		}, gauges...)
	})
}

func TestObserveIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stops []awsretry.Stop
		rt, reader := instrumented(t, &awsretry.Transport{
			Base:    httpfake.Statuses(503, 200),
			Observe: func(a awsretry.Attempt) { stops = append(stops, a.Stop) },
		})
		get(t, t.Context(), rt)
		if !slices.Equal(stops, []awsretry.Stop{"", awsretry.StopSuccess}) {
			t.Errorf("the observer saw %q", stops)
		}
		if got := collected(t, reader, "client.call.attempts"); len(got) != 2 {
			t.Errorf("recorded: %q", got)
		}
	})
}

// Observe may be set until the first request, which reads it. Every attempt is
// recorded once, and the Observe that was set last is called.
func TestObserveIsSetLater(t *testing.T) {
	var seen int
	count := func(awsretry.Attempt) { seen++ }
	tests := []struct {
		name string
		set  func(*otelretry.Transport, *awsretry.Transport)
		want int // calls of count, of one attempt
	}{
		{"untouched", func(*otelretry.Transport, *awsretry.Transport) {}, 0},
		{"set on the outer Transport", func(rt *otelretry.Transport, _ *awsretry.Transport) { rt.Observe = count }, 1},
		{"set on the inner Transport", func(_ *otelretry.Transport, tr *awsretry.Transport) { tr.Observe = count }, 1},
		{"cleared", func(rt *otelretry.Transport, _ *awsretry.Transport) { rt.Observe = nil }, 0},
		{"wrapped", func(rt *otelretry.Transport, _ *awsretry.Transport) {
			next := rt.Observe
			rt.Observe = func(a awsretry.Attempt) { count(a); next(a); count(a) }
		}, 2},
		{"used from inside, then set", func(rt *otelretry.Transport, tr *awsretry.Transport) {
			req, err := http.NewRequest("GET", "http://service.example/", nil)
			if err != nil {
				panic(err)
			}
			send(tr, req)
			rt.Observe = count // too late, as for any Transport
		}, 0},
	}
	for _, tt := range tests {
		for _, before := range []func(awsretry.Attempt){nil, func(awsretry.Attempt) {}} {
			t.Run(tt.name, func(t *testing.T) {
				tr := &awsretry.Transport{Base: httpfake.Statuses(200), Observe: before}
				rt, reader := instrumented(t, tr)
				seen = 0
				tt.set(rt, tr)
				sent := 1
				if strings.HasPrefix(tt.name, "used") {
					sent++
				}
				get(t, t.Context(), rt)
				if seen != tt.want {
					t.Errorf("the observer was called %d times, want %d", seen, tt.want)
				}
				got := collected(t, reader, "client.call.attempts")
				if want := fmt.Sprintf(" = %d", sent); len(got) != 1 || !strings.HasSuffix(got[0], want) {
					t.Errorf("recorded: %q, want %q", got, want)
				}
			})
		}
	}
}

// In adaptive mode, gauges show the line for send tokens.
func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := 429
		rt, reader := instrumented(t, &awsretry.Transport{
			Mode: awsretry.Adaptive, MaxAttempts: 1,
			Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
				return httpfake.Response(req, status, http.NoBody), nil
			}),
		})
		get(t, t.Context(), rt)
		status = 200
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { get(t, t.Context(), rt) })
		}
		synctest.Wait()
		wantMetrics(t, reader, []string{
			"awsretry.expected_wait[s] awsretry.partition=service.example = 8", // a token every two seconds
			"awsretry.waiting[{request}] awsretry.partition=service.example = 3",
		}, "awsretry.waiting", "awsretry.expected_wait")
		wg.Wait()
	})
}

// A store grants what it is asked to.
type store struct{ share sharing.Share }

func (s *store) Validate() error          { return nil }
func (s *store) Join(share sharing.Share) { s.share = share }

// With a store, gauges show the fleet.
func TestFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		rt, reader := instrumented(t, &awsretry.Transport{
			Mode: awsretry.Adaptive, Shared: s, Base: httpfake.Statuses(200),
		})
		get(t, t.Context(), rt)
		names := []string{
			"awsretry.leased", "awsretry.members", "awsretry.fleet_rate", "awsretry.tokens", "awsretry.fleet_tokens",
		}
		wantMetrics(t, reader, []string{
			"awsretry.leased[1] awsretry.partition=service.example = 0",
			"awsretry.members[{process}] awsretry.partition=service.example = 0",
			"awsretry.tokens[{token}] awsretry.partition=service.example = 500",
		}, names...)
		s.share.Grant(sharing.Grant{
			Until: time.Now().Add(time.Second), Limited: true, Rate: 2, FleetRate: 12.5, Members: 5, FleetTokens: 70,
		})
		wantMetrics(t, reader, []string{
			"awsretry.fleet_rate[{request}/s] awsretry.partition=service.example = 12.5",
			"awsretry.fleet_tokens[{token}] awsretry.partition=service.example = 70",
			"awsretry.leased[1] awsretry.partition=service.example = 1",
			"awsretry.members[{process}] awsretry.partition=service.example = 5",
			"awsretry.tokens[{token}] awsretry.partition=service.example = 500",
		}, names...)
	})
}

// A broken is a MeterProvider that cannot make histograms, or cannot register
// callbacks.
type broken struct {
	noop.MeterProvider
	histograms bool
}

func (b broken) Meter(string, ...metric.MeterOption) metric.Meter { return brokenMeter{broken: b} }

type brokenMeter struct {
	noop.Meter
	broken broken
}

func (m brokenMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	if m.broken.histograms {
		return nil, errors.New("broken")
	}
	return noop.Float64Histogram{}, nil
}

func (m brokenMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return nil, errors.New("broken")
}

func TestNewTransportFails(t *testing.T) {
	used := &awsretry.Transport{Base: httpfake.Statuses(200)}
	get(t, t.Context(), used)
	tests := []struct {
		name, want string
		tr         *awsretry.Transport
		meters     metric.MeterProvider
	}{
		{"nil", "otelretry: the Transport is nil", nil, nil},
		{"used", `otelretry: the Transport has sent a request to "service.example"`, used, nil},
		{"no histogram", "otelretry: making the instruments: broken", &awsretry.Transport{}, broken{histograms: true}},
		{"no callback", "otelretry: registering the gauges: broken", &awsretry.Transport{}, broken{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rt, err := otelretry.NewTransport(tt.tr, tt.meters)
			if rt != nil || err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%v, %v; want an error that begins with %q", rt, err, tt.want)
			}
			if tt.tr != nil && tt.tr.Observe != nil {
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

// A Transport with metrics is still one: another one cannot retry its retries,
// and CloseIdleConnections reaches Base.
func TestInnerTransportIsVisible(t *testing.T) {
	base := new(idler)
	rt, _ := instrumented(t, &awsretry.Transport{Base: base})
	if err := (&awsretry.Transport{Base: rt}).Validate(); err == nil {
		t.Error("a Transport that sends through it is valid")
	}
	(&http.Client{Transport: rt}).CloseIdleConnections()
	if base.closed != 1 {
		t.Errorf("CloseIdleConnections reached Base %d times, want 1", base.closed)
	}
}
