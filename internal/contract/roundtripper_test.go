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
	tr := &transport{Base: base, Backoff: delayed(0)}
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
	resp, err, panicked := tryRoundTrip(tr, req)

	switch {
	case panicked != end.panics:
		t.Fatalf("panicked: %v", panicked)
	case panicked:
	case (resp == nil) == (err == nil):
		t.Fatalf("RoundTrip = %v, %v; want exactly one of them", resp, err)
	case stopOf(resp, err) != end.stop:
		t.Errorf("stopped by %q, want %q; %v", stopOf(resp, err), end.stop, err)
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
	for want, resp := range map[string]*http.Response{
		"neither a response nor an error": nil,
		"both":                            {StatusCode: 200, Body: http.NoBody},
		"both, without a body":            {StatusCode: 200},
	} {
		r := sendGet(t, once(func(*http.Request) (*http.Response, error) {
			if resp == nil {
				return nil, nil
			}
			return resp, errors.New(want)
		}))
		if r.Response != nil || r.err == nil || !strings.Contains(r.err.Error(), want) {
			t.Errorf("%v, want %q", r, want)
		}
	}
	for _, status := range []int{204, 404} {
		r := sendGet(t, once(func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: status}, nil }))
		r.wantBody(t, "")
		var want *http.Response // a success has no record
		if status == 404 {
			want = r.Response
		}
		if record, _ := awsretry.Outcome(r.Response); record.Response != want {
			t.Errorf("the record of a response without a body is %+v", record)
		}
	}
}

// A panic in Base or in a hook leaves no lock locked and loses no token.
func TestPanicsLeaveNothing(t *testing.T) {
	for _, end := range endings {
		for refill, mode := range map[float64]awsretry.Mode{0: awsretry.Standard, 1e-9: awsretry.Adaptive} {
			if !end.panics {
				continue
			}
			inBubble(t, fmt.Sprintf("%s, %s", end.name, mode), func(t *testing.T) {
				tr := retrying(inTurn(append(end.outcomes[:len(end.outcomes):len(end.outcomes)], ok)...))
				tr.Mode, tr.Quota.RefillPerSecond = mode, refill
				if end.change != nil {
					end.change(tr)
				}
				if _, _, panicked := tryRoundTrip(tr, httpfake.Request(t, t.Context(), "PUT", nil)); !panicked {
					t.Fatal("no panic")
				}
				for name, state := range tr.Partitions() {
					if state.Tokens != 500 {
						t.Errorf("%d tokens in %q", state.Tokens, name)
					}
				}
				// The hook may end another request too, but no lock may stop it.
				resp, err, panicked := tryRoundTrip(tr, httpfake.Request(t, t.Context(), "PUT", nil))
				if !panicked && (err != nil || resp.StatusCode != 200) {
					t.Errorf("the next request: %v, %v", resp, err)
				}
			})
		}
	}
}

// A panickingContext panics when it is asked for the options of a call.
type panickingContext struct{ context.Context }

func (panickingContext) Value(any) any { panic("value") }

// A body that Base did not close, or could not, is closed for it.
func TestBodyIsClosedAfterAPanic(t *testing.T) {
	for kind := range bodyKinds {
		for _, warm := range []bool{false, true} {
			tr := once(httpfake.Statuses(200))
			if warm {
				sendGet(t, tr)
			}
			inContext, inBase := bodyKinds[kind](t, "the body"), bodyKinds[kind](t, "the body")
			req := httpfake.Request(t, panickingContext{t.Context()}, "PUT", nil)
			inContext.attachTo(req)
			wantPanic(t, tr, req, true)
			inContext.wantClosed(t)
			if kind == "GetBody" {
				continue // Base has the caller's body itself
			}
			req = httpfake.Request(t, t.Context(), "PUT", nil)
			inBase.attachTo(req)
			wantPanic(t, retrying(func(*http.Request) (*http.Response, error) { panic("base") }), req, true)
			inBase.wantClosed(t)
		}
	}
}

type panickingCloser struct{ io.Reader }

func (panickingCloser) Close() error { panic("close") }

// A panic of the caller's own body leaves no goroutine that waits for
// Request.Cancel, and nothing waits for that body. Base may recover a panic of
// Read.
func TestPanicInARequestBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req := httpfake.Request(t, context.Background(), "PUT", panickingCloser{strings.NewReader("x")})
		req.Cancel = make(chan struct{})
		wantPanic(t, retrying(failsWith(errReset)), req, true)
	})
	for name, recovers := range map[string]bool{"Read": false, "Read, recovered": true} {
		inBubble(t, name, func(t *testing.T) {
			source := httpfake.NewBody(httpfake.ReadFunc(func([]byte) (int, error) { panic("reader") }))
			sends := 0
			tr := retrying(func(req *http.Request) (resp *http.Response, err error) {
				sends++
				defer func() {
					if recovers && recover() != nil {
						err = errors.New("something panicked")
					}
				}()
				_, err = httpfake.Receive(req)
				return nil, err
			})
			req := httpfake.Request(t, context.Background(), "PUT", source)
			req.Cancel = make(chan struct{})
			start := time.Now()
			_, err, panicked := tryRoundTrip(tr, req)
			if took := time.Since(start); panicked == recovers || (err == nil) == recovers || took > time.Minute {
				t.Errorf("%v; panicked: %v after %v", err, panicked, took)
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
	{name: "Prepare fails later", change: prepareFails(2), outcomes: []outcome{busy}, sends: 1,
		stop: awsretry.StopPermanent},
	{name: "deadline", change: longDelay, outcomes: []outcome{busy}, sends: 1, stop: awsretry.StopDeadline,
		ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Minute)
		}},
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
