package main

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/bench/internal/modeled"
	"example.com/awsretry/bench/internal/output"
	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

// budgets are what limits the retries of a process.
var budgets = []library{
	{name: naiveName, over: func(base http.RoundTripper) http.RoundTripper { return naive{base} }},
	{name: standardName, over: ours()},
	{name: standardName + ", Quota.Share 0.2", over: ours(share)},
	{name: "awsretry standard, Revision2026, Quota.Share 0.2", over: ours(revision2026, share)},
	{name: "20 % of the calls of 10 s, and 10 a second (Finagle)", over: windowed(0.2, 10)},
	{name: "20 % of the calls of 10 s (GEP-3388), no minimum", over: windowed(0.2, 0)},
}

// windowed retries as awsretry's standard mode, but with another budget: retries
// are at most a share of the calls of ten seconds, and a number in each second.
// Finagle's default is a share of 0.2 and 10 a second ("Retry Budgets", Finagle's
// blog, 2016); GEP-3388 of the Kubernetes Gateway API has such a share, too.
func windowed(share, perSecond float64) func(http.RoundTripper) http.RoundTripper {
	return func(base http.RoundTripper) http.RoundTripper {
		b := &windowBudget{share: share, least: 10 * perSecond}
		b.tr = awsretry.Transport{Base: base, Quota: awsretry.QuotaConfig{Capacity: -1}, Policy: b.classify}
		return b
	}
}

type windowBudget struct {
	tr           awsretry.Transport
	share, least float64

	mu             sync.Mutex  // guards the fields below
	calls, retries []time.Time // of the last ten seconds
}

func (b *windowBudget) RoundTrip(req *http.Request) (*http.Response, error) {
	b.mu.Lock()
	b.calls = append(recent(b.calls), time.Now())
	b.mu.Unlock()
	return b.tr.RoundTrip(req)
}

// classify makes a failure permanent if the budget has no retry left.
func (b *windowBudget) classify(a *awsretry.Attempt) awsretry.Class {
	class := awsretry.DefaultPolicy(a)
	const attempts = 3
	if !class.Retryable() || a.Number >= attempts {
		return class
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls, b.retries = recent(b.calls), recent(b.retries)
	if float64(len(b.retries)+1) > b.share*float64(len(b.calls))+b.least {
		return awsretry.Permanent
	}
	b.retries = append(b.retries, time.Now())
	return class
}

// recent returns the times of the last ten seconds.
func recent(times []time.Time) []time.Time {
	for len(times) > 0 && time.Since(times[0]) > 10*time.Second {
		times = times[1:]
	}
	return times
}

// budgeted returns the table of so many processes that share the calls of the
// scenario outage of awsretry simulate, each with retries of its own.
func budgeted(processes int, lasts time.Duration) table {
	s, err := scenario.Ready("outage")
	if err != nil {
		panic(err) // it is part of simulate
	}
	s = s.WithClients(processes)
	s.Duration = scenario.Duration(lasts)
	return table{
		title: fmt.Sprintf("%d processes, %v", processes, lasts), virtual: modeled.Case{Scenario: s}, among: budgets,
		columns: []modeled.Column{
			{Name: "load", Show: output.Number("%.2f×"), Of: func(r modeled.Run) float64 { return r.Outcome.Amplification }},
			{Name: "calls failed", Show: output.Percent, Of: func(r modeled.Run) float64 { return r.Outcome.FailedShare }},
			{Name: "back to normal after", Of: backAfter, Show: output.Unless("never", "%.0f s")},
		},
	}
}

// backAfter returns seconds, or -1.
func backAfter(r modeled.Run) float64 {
	if r.Outcome.Recovered != simulate.RecoveredInRun {
		return -1
	}
	return time.Duration(r.Outcome.Recovery).Seconds()
}
