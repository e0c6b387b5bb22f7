package otelretry_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// A metric has at most 2000 series, and its sum is right, however many servers
// and statuses there are.
func TestSeriesAreLimited(t *testing.T) {
	const hosts, statuses = 3000, 900
	base := httpfake.Base(func(req *http.Request) (*http.Response, error) {
		status, err := strconv.Atoi(req.Header.Get("Status"))
		return httpfake.Response(req, status, http.NoBody), err
	})
	rt, reader := instrumented(t, &awsretry.Transport{Base: base, MaxAttempts: 1})
	for i := range hosts {
		req := request(t, t.Context(), "GET", fmt.Sprintf("http://h%d.example/", i))
		req.Header.Set("Status", "200")
		send(rt, req)
	}
	for i := range statuses {
		for _, method := range []string{"PUT", "POST"} {
			req := request(t, t.Context(), method, "http://last.example/")
			req.Header.Set("Status", fmt.Sprint(100+i))
			send(rt, req)
		}
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if m.Name != "client.call.attempts" {
			continue
		}
		var sum, servers, others, overflow int64
		points := m.Data.(metricdata.Sum[int64]).DataPoints
		for _, p := range points {
			sum += p.Value
			address, named := p.Attributes.Value("server.address")
			partition, _ := p.Attributes.Value("awsretry.partition")
			if named && (partition.AsString() == "_OTHER") != (address.AsString() == "_OTHER") {
				t.Errorf("partition %q of server %q", partition.AsString(), address.AsString())
			}
			switch _, over := p.Attributes.Value("otel.metric.overflow"); {
			case over:
				overflow += p.Value
			case named && address.AsString() == "_OTHER":
				others += p.Value
			default:
				servers++
			}
		}
		if want := int64(hosts + 2*statuses); sum != want {
			t.Errorf("%d attempts are counted, want %d", sum, want)
		}
		if len(points) != 2000 || servers != 1500 || others < hosts-1500 || overflow == 0 {
			t.Errorf("%d series, %d with a server; %d attempts without one, %d in the overflow",
				len(points), servers, others, overflow)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	rt, reader := instrumented(t, &awsretry.Transport{Base: httpfake.Statuses(503), MaxAttempts: 1})
	const callers, calls, hosts = 8, 200, 100
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for j := range calls {
				send(rt, request(t, context.Background(), "GET", fmt.Sprintf("http://h%d.example/", (i+j)%hosts)))
				if j%50 == 0 {
					collected(t, reader, "client.", "awsretry.")
				}
			}
		})
	}
	wg.Wait()
	got := collected(t, reader, "awsretry.refusals")
	for _, l := range got {
		if !strings.HasSuffix(l, fmt.Sprintf(" = %d", callers*calls/hosts)) {
			t.Error(l)
		}
	}
	if len(got) != hosts {
		t.Errorf("%d series: %q", len(got), got)
	}
}

func TestMetricsDoNotAllocate(t *testing.T) {
	req := request(t, t.Context(), "GET", "http://service.example/")
	bare := &awsretry.Transport{Base: httpfake.Statuses(200)}
	metered, _ := instrumented(t, &awsretry.Transport{Base: httpfake.Statuses(200)})
	count := func(rt http.RoundTripper) float64 { return testing.AllocsPerRun(200, func() { send(rt, req) }) }
	if without, with := count(bare), count(metered); with > without {
		t.Errorf("%v allocations for a request with metrics, %v without", with, without)
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	req := request(b, b.Context(), "GET", "http://service.example/")
	metered, _ := instrumented(b, &awsretry.Transport{Base: httpfake.Statuses(200)})
	for name, rt := range map[string]http.RoundTripper{
		"plain":    &awsretry.Transport{Base: httpfake.Statuses(200)},
		"observed": &awsretry.Transport{Base: httpfake.Statuses(200), Observe: func(awsretry.Attempt) {}},
		"metered":  metered,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				send(rt, req)
			}
		})
	}
}
