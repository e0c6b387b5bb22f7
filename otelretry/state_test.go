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
	"example.com/awsretry/otelretry"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
)

func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, reader := instrumented(t, &awsretry.Transport{Base: answersWith(500, 500, 500, 200)})
		differ(t, collected(t, reader, "awsretry."), nil)
		get(t, t.Context(), rt)
		get(t, awsretry.WithPartition(t.Context(), "table \xff"), rt)
		want := []string{
			"awsretry.tokens[{token}] awsretry.partition=service.example = 490",
			"awsretry.tokens[{token}] awsretry.partition=table \uFFFD = 500",
		}
		differ(t, collected(t, reader, "awsretry.tokens", "awsretry.send_rate", "awsretry.measured_rate"), want)

		if err := rt.Unregister(); err != nil {
			t.Fatal(err)
		}
		get(t, t.Context(), rt)
		got := collected(t, reader, "awsretry.tokens", "client.call.attempts")
		if slices.ContainsFunc(got, func(l string) bool { return strings.HasPrefix(l, "awsretry.tokens") }) {
			t.Errorf("the gauge is still there: %q", got)
		}
		if !slices.ContainsFunc(got, func(l string) bool {
			return strings.Contains(l, "partition=service.example,") && strings.Contains(l, "status_code=200,"+server+" = 1")
		}) {
			t.Errorf("attempts are no longer counted: %q", got)
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
				tr.Base = answersWith(200)
				rt, reader := instrumented(t, tr)
				get(t, t.Context(), rt)
				differ(t, collected(t, reader, "awsretry."), nil)
			})
		})
	}
}

func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := 200
		rt, reader := instrumented(t, &awsretry.Transport{
			Mode: awsretry.Adaptive, MaxAttempts: 1,
			Base: baseFunc(func(req *http.Request) (*http.Response, error) {
				time.Sleep(100 * time.Millisecond)
				return answer(req, status), nil
			}),
		})
		for range 20 {
			get(t, t.Context(), rt)
		}
		state, _ := rt.State("service.example")
		if state.Limited || state.MeasuredRate < 5 {
			t.Fatalf("%+v: it should measure, and not limit", state)
		}
		gauges := []string{"awsretry.send_rate", "awsretry.measured_rate"}
		measured := "awsretry.measured_rate[{response}/s] awsretry.partition=service.example = "
		differ(t, collected(t, reader, gauges...), []string{measured + "9.984"})

		status = 429
		get(t, t.Context(), rt)
		differ(t, collected(t, reader, gauges...), []string{
			measured + "9.984", // 10, less what the smoothing of four intervals leaves of 0
			"awsretry.send_rate[{request}/s] awsretry.partition=service.example = 6.989", // beta is 0.7
		})
	})
}

func TestObserveIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stops []awsretry.Stop
		rt, reader := instrumented(t, &awsretry.Transport{
			Base:    answersWith(503, 200),
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

// Observe may be set until the first request, which reads it. Every attempt is recorded once all the same, and the observer that
// was set last is called.
func TestObserveIsSetLater(t *testing.T) {
	var seen int
	count := func(awsretry.Attempt) { seen++ }
	tests := []struct {
		name string
		set  func(*otelretry.Transport, *awsretry.Transport)
		want int // calls of count, of one attempt
	}{
		{"untouched", func(*otelretry.Transport, *awsretry.Transport) {}, 0},
		{"set on the outer one", func(rt *otelretry.Transport, _ *awsretry.Transport) { rt.Observe = count }, 1},
		{"set on the inner one", func(_ *otelretry.Transport, tr *awsretry.Transport) { tr.Observe = count }, 1},
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
			rt.Observe = count // too late, as it is for any Transport
		}, 0},
	}
	for _, tt := range tests {
		for _, before := range []func(awsretry.Attempt){nil, func(awsretry.Attempt) {}} {
			t.Run(tt.name, func(t *testing.T) {
				tr := &awsretry.Transport{Base: plain(200), Observe: before}
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

// The line for send tokens can be seen, in adaptive mode.
func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := 429
		rt, reader := instrumented(t, &awsretry.Transport{
			Mode: awsretry.Adaptive, MaxAttempts: 1,
			Base: baseFunc(func(req *http.Request) (*http.Response, error) { return answer(req, status), nil }),
		})
		get(t, t.Context(), rt)
		status = 200
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { get(t, t.Context(), rt) })
		}
		synctest.Wait()
		differ(t, collected(t, reader, "awsretry.waiting", "awsretry.expected_wait"), []string{
			"awsretry.expected_wait[s] awsretry.partition=service.example = 8", // a token every two seconds
			"awsretry.waiting[{request}] awsretry.partition=service.example = 3",
		})
		wg.Wait()
	})
}

// A broken is a MeterProvider that cannot make histograms, or else cannot register callbacks.
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
	used := &awsretry.Transport{Base: baseFunc(func(req *http.Request) (*http.Response, error) { return answer(req, 200), nil })}
	get(t, t.Context(), used)
	tests := []struct {
		name, want string
		tr         *awsretry.Transport
		meters     metric.MeterProvider
	}{
		{"nil", "the Transport is nil", nil, nil},
		{"used", `the Transport has sent a request to "service.example"`, used, nil},
		{"no histogram", "otelretry: making the instruments: broken", &awsretry.Transport{}, broken{histograms: true}},
		{"no callback", "otelretry: registering the gauges: broken", &awsretry.Transport{}, broken{}},
	}
	for _, tt := range tests {
		rt, err := otelretry.NewTransport(tt.tr, tt.meters)
		if rt != nil || err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "otelretry: ") {
			t.Errorf("%s: %v, %v; want an error with %q", tt.name, rt, err, tt.want)
		}
		if tt.tr != nil && tt.tr.Observe != nil {
			t.Errorf("%s: Observe is set", tt.name)
		}
	}
}

func TestGlobalMeterProvider(t *testing.T) {
	before := otel.GetMeterProvider()
	defer otel.SetMeterProvider(before)
	reader := sdk.NewManualReader()
	otel.SetMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader)))
	rt, err := otelretry.NewTransport(&awsretry.Transport{Base: answersWith(200)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	get(t, t.Context(), rt)
	if got := collected(t, reader, "client.call.attempts", "awsretry.tokens"); len(got) != 2 {
		t.Errorf("recorded: %q", got)
	}
}

// Retries of retries are refused through the metrics too, and idle connections are closed through them.
func TestTransportIsStillOne(t *testing.T) {
	closed := &closes{}
	rt, _ := instrumented(t, &awsretry.Transport{Base: closed})
	if err := (&awsretry.Transport{Base: rt}).Validate(); err == nil {
		t.Error("a Transport around it is valid")
	}
	(&http.Client{Transport: rt}).CloseIdleConnections()
	if closed.n != 1 {
		t.Errorf("Base's idle connections were closed %d times", closed.n)
	}
}

type closes struct {
	baseFunc
	n int
}

func (c *closes) CloseIdleConnections() { c.n++ }
