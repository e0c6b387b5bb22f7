package contract_test

import (
	"context"
	"io"
	"net/http"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// An ending is one of the ways in which RoundTrip ends.
type ending struct {
	name     string
	change   func(*transport) // nil: nothing
	ctx      func(context.Context) (context.Context, context.CancelFunc)
	header   http.Header
	before   []outcome // for a request that goes first
	outcomes []outcome
	sends    int // attempts that reach Base
	stop     awsretry.Stop
	panics   bool
}

var cancelSoon = canceledAfter(10 * time.Millisecond)

var endings = []ending{
	{name: "success", outcomes: []outcome{ok}, sends: 1},
	{name: "permanent", outcomes: []outcome{invalid}, sends: 1, stop: awsretry.StopPermanent},
	{name: "retried", outcomes: []outcome{busy, ok}, sends: 2, stop: awsretry.StopSuccess},
	{name: "exhausted", outcomes: []outcome{busy, throttled, busy}, sends: 3, stop: awsretry.StopMaxAttempts},
	{name: "transport errors", outcomes: []outcome{fails(errReset), fails(errReset), fails(errReset)}, sends: 3,
		stop: awsretry.StopMaxAttempts},
	{name: "neither response nor error", outcomes: []outcome{fails(nil), ok}, sends: 2, stop: awsretry.StopSuccess},
	{name: "response and error", outcomes: []outcome{respondsAndFails, ok}, sends: 2, stop: awsretry.StopSuccess},
	{name: "canceled before", ctx: canceledAfter(0), stop: awsretry.StopCanceled},
	{name: "canceled in the attempt", ctx: cancelSoon, outcomes: []outcome{hangs}, sends: 1, stop: awsretry.StopCanceled},
	{name: "canceled in the delay", ctx: cancelSoon, change: longDelay, outcomes: []outcome{busy}, sends: 1,
		stop: awsretry.StopCanceled},
	{name: "canceled waiting for retry tokens", ctx: cancelSoon, change: slowQuota, before: []outcome{busy, invalid},
		outcomes: []outcome{busy}, sends: 1, stop: awsretry.StopCanceled},
	{name: "canceled waiting for a send token", ctx: cancelSoon, change: adaptive, before: []outcome{throttled, invalid},
		stop: awsretry.StopCanceled},
	{name: "no tokens", change: func(tr *transport) { tr.Quota.Capacity = 1 }, outcomes: []outcome{busy}, sends: 1,
		stop: awsretry.StopQuota},
	{name: "no tokens for a first attempt", before: []outcome{invalid}, stop: awsretry.StopQuota,
		change: func(tr *transport) { tr.Quota = awsretry.QuotaConfig{Capacity: 10, InitialCost: 10} }},
	{name: "invalid configuration", change: func(tr *transport) { tr.MaxAttempts = -1 }},
	{name: "Prepare fails", change: prepareFails(1), stop: awsretry.StopPermanent},
	{name: "Prepare fails later", change: prepareFails(2), outcomes: []outcome{busy}, sends: 1,
		stop: awsretry.StopPermanent},
	{name: "Retry-After", outcomes: []outcome{responds(503, "Retry-After", "3600")}, sends: 1,
		stop: awsretry.StopRetryAfter},
	{name: "deadline", change: longDelay, outcomes: []outcome{busy}, sends: 1, stop: awsretry.StopDeadline,
		ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Minute)
		}},
	{name: "outer loop", header: http.Header{"Amz-Sdk-Request": {"attempt=1; max=3"}}, outcomes: []outcome{busy},
		sends: 1, stop: awsretry.StopOuterRetry},
	{name: "WithoutRetry", outcomes: []outcome{busy}, sends: 1, stop: awsretry.StopDisabled,
		ctx: option(awsretry.WithoutRetry)},
	{name: "attempt timeout", change: func(tr *transport) { tr.AttemptTimeout = time.Minute },
		outcomes: []outcome{hangs, ok}, sends: 2, stop: awsretry.StopSuccess},
	{name: "FailFast", change: failFast, before: []outcome{throttled}, stop: awsretry.StopRateLimit},
	{name: "FailFast at a retry", change: failFast, outcomes: []outcome{throttled}, sends: 1,
		stop: awsretry.StopRateLimit},

	{name: "Base panics", outcomes: []outcome{panics}, sends: 1, panics: true},
	{name: "Base panics later", outcomes: []outcome{busy, panics}, sends: 2, panics: true},
	{name: "Prepare panics", change: preparePanics(1), panics: true},
	{name: "Prepare panics later", change: preparePanics(2), outcomes: []outcome{busy}, sends: 1, panics: true},
	{name: "Partition panics", panics: true,
		change: func(tr *transport) { tr.Partition = func(*http.Request) string { panic("partition") } }},
	{name: "Policy panics", outcomes: []outcome{busy}, sends: 1, panics: true,
		change: func(tr *transport) { tr.Policy = func(*awsretry.Attempt) awsretry.Class { panic("policy") } }},
	{name: "Observe panics before the delay", change: observePanics, outcomes: []outcome{busy}, sends: 1, panics: true},
	{name: "Observe panics at the end", change: observePanics, outcomes: []outcome{ok}, sends: 1, panics: true},
	{name: "Backoff panics", change: backoffPanics, outcomes: []outcome{busy}, sends: 1, panics: true},
}

func respondsAndFails(req *http.Request, body io.ReadCloser) (*http.Response, error) {
	return httpfake.Response(req, 200, body), errReset
}

// slowQuota leaves tokens for one retry, and fills up too slowly for another.
func slowQuota(tr *transport) {
	tr.Quota = awsretry.QuotaConfig{Capacity: 10, RetryCost: 10, RefillPerSecond: 1e-3, Wait: true}
}

func observePanics(tr *transport) { tr.Observe = func(awsretry.Attempt) { panic("observe") } }

func backoffPanics(tr *transport) {
	tr.Backoff = awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { panic("backoff") })
}
