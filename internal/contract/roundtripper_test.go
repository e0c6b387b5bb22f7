package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// A bodyUse is one of the ways in which Base treats a request body.
type bodyUse struct {
	name    string
	read    int           // bytes; -1: all
	late    time.Duration // how long after its return Base closes the body
	twice   bool          // Base closes it twice, as net/http may; only a body that is not the caller's own
	warm    bool          // the Transport has sent another request before
	timeout bool
}

var bodyUses = []bodyUse{
	{name: "read whole", read: -1},
	{name: "read whole by a second request", read: -1, warm: true},
	{name: "read whole and closed twice", read: -1, twice: true},
	{name: "unread and closed late", late: 50 * time.Millisecond},
	{name: "read in part and closed late", read: 4, late: 50 * time.Millisecond},
	{name: "read in part under a timeout", read: 4, timeout: true},
}

// Whatever ends RoundTrip, it returns either a response or an error, the
// request body is closed once, the last response is whole, and the others are
// closed.
func TestEveryEnding(t *testing.T) {
	for _, end := range endings {
		for kind := range bodyKinds {
			for _, use := range bodyUses {
				t.Run(end.name+"/"+kind+"/"+use.name, func(t *testing.T) {
					sent := bodyKinds[kind](t, "the request's body")
					synctest.Test(t, func(t *testing.T) { end.test(t, sent, use) })
				})
			}
		}
	}
}

func (end ending) test(t *testing.T, sent *sentBody, use bodyUse) {
	base := &scriptedBase{use: use, ownBody: sent.getBody != nil}
	tr := &transport{Base: base, Backoff: contract.Delay(0)}
	if end.change != nil {
		end.change(tr)
	}
	if use.timeout && tr.AttemptTimeout == 0 {
		tr.AttemptTimeout = time.Hour
	}
	before := end.before
	if use.warm && before == nil && tr.Validate() == nil && !end.panics {
		before = []outcome{ok}
	}
	if base.outcomes = before; before != nil {
		if resp, err := get(t, tr); err == nil {
			resp.Body.Close()
		} else if end.before != nil { // what ends the call may end one that warms up too
			t.Fatal("the request before:", err)
		}
	}
	*base = scriptedBase{use: use, ownBody: base.ownBody, outcomes: end.outcomes}

	ctx := t.Context()
	if end.ctx != nil {
		var cancel context.CancelFunc
		ctx, cancel = end.ctx(ctx)
		defer cancel()
	}
	req := httpfake.Request(t, ctx, "PUT", nil)
	sent.attachTo(req)
	if end.header != nil {
		req.Header = end.header.Clone()
	}
	resp, err, panicked := tryRoundTrip(tr, req)

	switch {
	case panicked != end.panics:
		t.Fatalf("panicked: %v", panicked)
	case panicked:
	case (resp == nil) == (err == nil):
		t.Fatalf("RoundTrip = %v, %v; want exactly one of them", resp, err)
	case contract.StopOf(resp, err) != end.stop:
		t.Errorf("stopped by %q, want %q; %v", contract.StopOf(resp, err), end.stop, err)
	}
	if base.sends != end.sends {
		t.Errorf("%d attempts, want %d", base.sends, end.sends)
	}
	if resp != nil {
		last := base.responses[len(base.responses)-1]
		if last.Closes() > 0 {
			t.Error("the response is closed")
		}
		if got := httpfake.ReadAll(t, resp); got != "a response" || last.Closes() != 1 {
			t.Errorf("the response is %q, and Close closed it %d times", got, last.Closes())
		}
	}
	for i, body := range base.responses {
		if body.Closes() == 0 {
			t.Errorf("response %d is open", i+1)
		}
	}
	time.Sleep(time.Second) // Base may close the request body late
	sent.wantClosed(t)
}

// A scriptedBase uses the request body as its test says and goes through a list
// of outcomes.
type scriptedBase struct {
	outcomes  []outcome
	use       bodyUse
	ownBody   bool // the first attempt has the body of the caller's own request
	sends     int
	responses []*httpfake.Body
}

func (b *scriptedBase) RoundTrip(req *http.Request) (*http.Response, error) {
	b.sends++
	if req.Body != nil {
		b.receive(req.Body)
	}
	next := b.outcomes[0]
	b.outcomes = b.outcomes[1:]
	body := httpfake.NewBody(strings.NewReader("a response"))
	resp, err := next(req, body)
	if resp != nil {
		b.responses = append(b.responses, body)
	}
	return resp, err
}

func (b *scriptedBase) receive(body io.ReadCloser) {
	if n := b.use.read; n < 0 {
		io.Copy(io.Discard, body)
	} else {
		io.CopyN(io.Discard, body, int64(n))
	}
	if b.use.late > 0 {
		time.AfterFunc(b.use.late, func() { body.Close() })
		return
	}
	body.Close()
	if b.use.twice && !b.ownBody {
		body.Close()
	}
}

// A Base that breaks its own contract makes an error, or a body.
func TestBrokenBase(t *testing.T) {
	both := errors.New("both")
	for _, tt := range []struct {
		name string
		resp *http.Response
		err  error
		want string
	}{
		{"neither response nor error", nil, nil, "neither a response nor an error"},
		{"both", &http.Response{StatusCode: 200, Body: http.NoBody}, both, "both"},
		{"both, without a body", &http.Response{StatusCode: 200}, both, "both"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, err := get(t, once(func(*http.Request) (*http.Response, error) { return tt.resp, tt.err }))
			if resp != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, %v", resp, err)
			}
		})
	}
	for _, status := range []int{204, 404} {
		r := sendGet(t, once(func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: status}, nil }))
		r.wantBody(t, "")
		if record, ok := awsretry.Outcome(r.Response); ok != (status == 404) || ok && record.Response != r.Response {
			t.Errorf("the record of a response without a body is %+v, %v", record, ok)
		}
	}
}

// A panic in Base or in a hook leaves no lock locked and loses no token.
func TestPanicsLeaveNothing(t *testing.T) {
	for _, end := range endings {
		for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Adaptive} {
			for _, refill := range []float64{0, 1e-9} { // two kinds of bucket
				if !end.panics {
					continue
				}
				inBubble(t, fmt.Sprintf("%s, %s, refill %g", end.name, mode, refill), func(t *testing.T) {
					tr := retrying(inTurn(append(end.outcomes[:len(end.outcomes):len(end.outcomes)], ok)...))
					tr.Mode, tr.Quota.RefillPerSecond = mode, refill
					if end.change != nil {
						end.change(tr)
					}
					send := func() (*http.Response, error, bool) {
						return tryRoundTrip(tr, httpfake.Request(t, t.Context(), "PUT", strings.NewReader("x")))
					}
					if _, _, panicked := send(); !panicked {
						t.Fatal("no panic")
					}
					for name, state := range tr.Partitions() {
						if state.Tokens != 500 {
							t.Errorf("%d tokens in %q", state.Tokens, name)
						}
					}
					// The hook may end another request too, but no lock may
					// stop it.
					resp, err, panicked := send()
					if !panicked && (err != nil || resp.StatusCode != 200) {
						t.Errorf("the next request: %v, %v", resp, err)
					}
				})
			}
		}
	}
}

// A body that Base cannot have closed, because it panicked, is closed for it.
func TestBodyIsClosedAfterAPanicOfBase(t *testing.T) {
	for _, kind := range []string{"file", "section", "stream"} {
		sent, req := bodyKinds[kind](t, "the body"), httpfake.Request(t, t.Context(), "PUT", nil)
		sent.attachTo(req)
		tr := retrying(func(*http.Request) (*http.Response, error) { panic("base") })
		if _, _, panicked := tryRoundTrip(tr, req); !panicked {
			t.Error("no panic")
		}
		sent.wantClosed(t)
	}
}

// A panickingContext panics when it is asked for the options of a call.
type panickingContext struct{ context.Context }

func (panickingContext) Value(any) any { panic("value") }

func TestBodyIsClosedAfterAPanicOfTheContext(t *testing.T) {
	for kind := range bodyKinds {
		for _, warm := range []bool{false, true} {
			tr := once(httpfake.Statuses(200))
			if warm {
				sendGet(t, tr)
			}
			sent := bodyKinds[kind](t, "the body")
			req := httpfake.Request(t, panickingContext{t.Context()}, "PUT", nil)
			sent.attachTo(req)
			if _, _, panicked := tryRoundTrip(tr, req); !panicked {
				t.Error("no panic")
			}
			sent.wantClosed(t)
		}
	}
}

type panickingCloser struct{ io.Reader }

func (panickingCloser) Close() error { panic("close") }

// A panic of the caller's own body leaves no goroutine that waits for
// Request.Cancel, and nothing waits for that body. Base may recover a panic of
// Read.
func TestPanicInARequestBody(t *testing.T) {
	for name, tt := range map[string]struct{ reads, recovers bool }{
		"Close": {false, false}, "Read": {true, false}, "Read, recovered": {true, true},
	} {
		inBubble(t, name, func(t *testing.T) {
			source := httpfake.NewBody(httpfake.ReadFunc(func([]byte) (int, error) { panic("reader") }))
			var body io.Reader = source
			if !tt.reads {
				body = panickingCloser{strings.NewReader("x")}
			}
			sends := 0
			tr := retrying(func(req *http.Request) (resp *http.Response, err error) {
				sends++
				defer func() {
					if tt.recovers && recover() != nil {
						err = errors.New("something panicked")
					}
				}()
				if tt.reads {
					_, err = httpfake.Receive(req)
					return nil, err
				}
				return nil, errReset
			})
			req := httpfake.Request(t, context.Background(), "PUT", body)
			req.Cancel = make(chan struct{})
			start := time.Now()
			_, err, panicked := tryRoundTrip(tr, req)
			if took := time.Since(start); panicked == tt.recovers || (err == nil) == tt.recovers || took > time.Minute {
				t.Errorf("%v; panicked: %v after %v", err, panicked, took)
			}
			if !tt.reads {
				return
			}
			wantTokens(t, tr, 500)
			if wantClosed(t, source); sends != 1 {
				t.Errorf("%d attempts", sends)
			}
		})
	}
}

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
