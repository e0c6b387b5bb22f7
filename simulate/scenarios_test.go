package simulate

import (
	"testing"
	"time"

	"example.com/awsretry/simulate/scenario"
)

func seconds(s float64) scenario.Duration { return scenario.Duration(s * float64(time.Second)) }

func ms(n float64) scenario.Duration { return seconds(n / 1000) }

func mustRun(t *testing.T, s scenario.Scenario) *Result {
	t.Helper()
	r, err := Run(t.Context(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tiny is one caller whose calls take 100 ms: 1 ms in the queue, 97 ms after it
// and 2 ms on the network.
func tiny(settings ...scenario.Setting) scenario.Scenario {
	return scenario.Scenario{
		Name: "tiny", Duration: seconds(10), Seed: 1,
		Clients:  scenario.Clients{Count: 1, Callers: 1},
		Service:  scenario.Service{Capacity: 1000, Queue: 10, Latency: scenario.Latency{Median: ms(97)}, Network: ms(2)},
		Settings: settings,
	}
}

// restless returns small runs in which as many events as possible coincide.
func restless() []scenario.Scenario {
	settings := append(
		scenario.DefaultSettings(),
		scenario.Setting{Use: scenario.UseDelivery, Policy: scenario.AWSManaged},
		scenario.Setting{Use: scenario.UseFleet, Pacing: "scaled"},
		scenario.Setting{Use: scenario.UseFleet, StoreLatency: ms(200), Name: "slow store"},
	)
	service := scenario.Service{
		Capacity: 50, Queue: 50, QueueFull: 429, Latency: scenario.Latency{Median: ms(20), P99: ms(400)}, RefuseCost: 0.1,
	}
	return []scenario.Scenario{{
		Name: "open loop", Duration: seconds(12), Seed: 7,
		Clients: scenario.Clients{Count: 5, Rate: 40, Timeout: seconds(5), AttemptTimeout: ms(700)}, Service: service,
		Events: []scenario.Event{
			{Kind: scenario.Outage, How: scenario.OutageHang, From: seconds(2), To: seconds(4)},
			{Kind: scenario.Throttling, From: seconds(5), To: seconds(10),
				Throttle: &scenario.Throttle{Rate: 20, Share: 0.05, RetryAfter: seconds(1)}},
			{Kind: scenario.Herd, From: seconds(7), To: seconds(7.1), Calls: 10},
			{Kind: scenario.Errors, From: seconds(9), Share: 0.2},
		},
		Settings: settings,
	}, {
		Name: "closed loop", Duration: seconds(12), Seed: 7,
		Clients: scenario.Clients{Count: 3, Callers: 12, Think: ms(500), Timeout: seconds(5)}, Service: service,
		Events: []scenario.Event{
			{Kind: scenario.Throttling, From: seconds(3), To: seconds(10),
				Throttle: &scenario.Throttle{Rate: 10, InFlight: 8, Ban: ms(300), PerClient: true}},
			{Kind: scenario.SlowLatency, Factor: 4, From: seconds(5), To: seconds(12)},
			{Kind: scenario.CapacityStep, Capacity: 30, From: seconds(8)},
			{Kind: scenario.Herd, From: seconds(4), Calls: 5, To: seconds(6)},
			{Kind: scenario.Join, From: seconds(2), Clients: 1, To: seconds(3)},
		},
		Settings: settings,
	}, {
		Name: "bodies", Duration: seconds(12), Seed: 7,
		Clients: scenario.Clients{Count: 3, Callers: 12, Think: ms(200), Timeout: seconds(8), AttemptTimeout: ms(700)},
		Service: withBody(service, scenario.Body{Time: ms(600), Broken: 0.2}),
		Events: []scenario.Event{
			{Kind: scenario.Throttling, From: seconds(3), To: seconds(6),
				Throttle: &scenario.Throttle{Rate: 10, RetryAt: seconds(6)}},
			{Kind: scenario.Errors, From: seconds(8), Share: 0.1},
		},
		Settings: []scenario.Setting{
			{Use: scenario.UseStandard, Resume: true, ShareRetryAfter: true, AttemptTimeout: ms(333)},
			{Use: scenario.UseRevision2026, Resume: true, ShareRetryAfter: true, NoSpread: true},
			{Use: scenario.UseAdaptive, Resume: true, ShareRetryAfter: true, Quota: scenario.QuotaNone},
			{Use: scenario.UseAdaptive, ShareRetryAfter: true, NoSpread: true},
			{Use: scenario.UseFleet, Resume: true, ShareRetryAfter: true, Quota: scenario.QuotaSDK},
			{Use: scenario.UseNaive},
			{Use: scenario.UseLegacy},
			{Use: scenario.UseDelivery},
		},
	}}
}

func withBody(s scenario.Service, b scenario.Body) scenario.Service {
	s.Body = &b
	return s
}
