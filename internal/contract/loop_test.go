package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/retrier"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A decider is what package awssdk uses of a Transport.
type decider interface {
	Wait() error
	Classify(resp *http.Response, code string, err error) awsretry.Class
	Settle()
	Decide(why awsretry.Stop) (delay time.Duration, stop awsretry.Stop)
	End()
}

func newLoop(tr *transport, req *http.Request) (decider, error) {
	loop, err := tr.Loop(retrier.Seal{}, req, false)
	if err != nil {
		return nil, err
	}
	return loop, nil
}

// A loopTransport is a retry loop as another library may have one.
type loopTransport struct {
	*transport
	base httpfake.Base
}

func (l loopTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	loop, err := newLoop(l.transport, req)
	if err != nil {
		return nil, err
	}
	defer loop.End()
	for {
		if err := loop.Wait(); err != nil {
			return nil, err
		}
		resp, err := l.base(req)
		code := ""
		if resp != nil {
			code = resp.Header.Get("X-Amzn-Errortype")
		}
		loop.Classify(resp, code, err)
		loop.Settle()
		delay, stop := loop.Decide("")
		if delay > 0 {
			timer := time.NewTimer(delay)
			select {
			case <-timer.C:
			case <-req.Context().Done():
				timer.Stop()
				return nil, context.Cause(req.Context())
			}
		}
		if stop != "" {
			return resp, err
		}
	}
}

// A loopCase is a Transport with a service, and what its callers do.
type loopCase struct {
	Configure func(*transport)
	Steps     []int // of loopSteps, one for each attempt; the last one repeats
	Calls     int
	Context   func(context.Context) (context.Context, context.CancelFunc)
	Target    string
}

var loopSteps = []outcome{
	ok, busy, throttled, invalid, fails(errReset), fails(io.ErrUnexpectedEOF), fails(os.ErrDeadlineExceeded),
	responds(400, "X-Amzn-ErrorType", "ThrottlingException"),
	responds(503, "Retry-After", "2"),
	responds(429, "Retry-After", "90"),
	responds(500, "X-Amz-Retry-After", "1500"),
}

// A loopTrace is what can be seen of a loopCase.
type loopTrace struct {
	Sent     []time.Duration // since the start
	Ended    []time.Duration
	Records  []awsretry.Attempt
	Outcomes []string
	State    awsretry.State
}

// play makes the calls of c one after the other, through what send returns.
func (c loopCase) play(t *testing.T, send func(*transport, httpfake.Base) http.RoundTripper) loopTrace {
	var trace loopTrace
	start := time.Now()
	attempts := 0
	base := httpfake.Base(func(req *http.Request) (*http.Response, error) {
		trace.Sent = append(trace.Sent, time.Since(start))
		step := c.Steps[min(attempts, len(c.Steps)-1)]
		attempts++
		time.Sleep(20 * time.Millisecond)
		return loopSteps[step](req, http.NoBody)
	})
	tr := &transport{Base: base, KeepConnections: true, RetryAfterSpread: -1, Backoff: noJitter}
	c.Configure(tr)
	if tr.Mode == awsretry.Legacy {
		tr.Backoff = delayed(time.Second)
	}
	tr.Observe = func(a awsretry.Attempt) {
		a.Start = time.Time{}.Add(a.Start.Sub(start))
		trace.Records = append(trace.Records, a)
	}
	rt := send(tr, base)
	for range c.Calls {
		ctx, cancel := c.Context(t.Context())
		req := httpfake.Request(t, ctx, "GET", nil)
		if c.Target != "" {
			req.Header.Set("X-Amz-Target", c.Target)
		}
		resp, err := rt.RoundTrip(req)
		cancel()
		trace.Ended = append(trace.Ended, time.Since(start))
		trace.Outcomes = append(trace.Outcomes, outcomeOf(resp, err))
	}
	trace.State, _ = tr.State("service.example")
	return trace
}

// outcomeOf describes how a call ended, as a caller of either loop sees it.
func outcomeOf(resp *http.Response, err error) string {
	if resp != nil {
		return fmt.Sprint("status ", resp.StatusCode)
	}
	for _, known := range []error{errReset, io.ErrUnexpectedEOF, os.ErrDeadlineExceeded, context.DeadlineExceeded,
		awsretry.ErrRateLimited, awsretry.ErrQuotaExceeded} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return fmt.Sprint(err)
}

// A Loop decides as RoundTrip does: the same attempts, at the same times, with
// the same records, and the same buckets afterwards.
func TestLoopDecidesAsRoundTrip(t *testing.T) {
	deadline := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, d) }
	}
	plain := option(func(ctx context.Context) context.Context { return ctx })
	contexts := []func(context.Context) (context.Context, context.CancelFunc){
		deadline(1497 * time.Millisecond), deadline(9997 * time.Millisecond), plain, plain,
		option(awsretry.WithoutRetry),
		option(func(ctx context.Context) context.Context { return awsretry.WithMaxAttempts(ctx, 5) }),
		option(func(ctx context.Context) context.Context {
			return awsretry.WithPolicy(ctx, awsretry.IdempotentOnly(nil))
		}),
		option(func(ctx context.Context) context.Context {
			return awsretry.WithBackoff(ctx, delayed(time.Second))
		}),
	}
	settings := []func(*transport){
		adaptive,
		func(tr *transport) { tr.Mode, tr.RateLimit.Pacing = awsretry.Adaptive, awsretry.ScaledPacing },
		func(tr *transport) { tr.Mode, tr.Revision = awsretry.Adaptive, awsretry.Revision2026 },
		func(*transport) {},
		func(tr *transport) { tr.Mode = awsretry.Legacy },
		func(tr *transport) { tr.Revision = awsretry.Revision2026 },
		func(tr *transport) { tr.Quota = quota{Capacity: 12, InitialCost: 2} },
		func(tr *transport) { tr.Quota, tr.MaxAttempts = quota{Capacity: 12, RefillPerSecond: 2, Wait: true}, 4 },
		func(tr *transport) { tr.ShareRetryAfter = true },
		func(tr *transport) { tr.MaxRetryAfter = -1 },
		func(tr *transport) {
			tr.Quota, tr.LongPoll = quota{Capacity: 12}, func(*http.Request) bool { return true }
		},
	}
	targets := []string{"", "", "DynamoDB_20120810.GetItem", "AmazonSQS.ReceiveMessage"}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 600 {
		c := loopCase{
			Configure: settings[i%len(settings)],
			Target:    targets[random.IntN(len(targets))],
			Calls:     1 + random.IntN(4),
		}
		context := random.IntN(len(contexts))
		if paced := i%len(settings) <= 2; paced {
			// RoundTrip decides again when a retry has waited for a send token
			// up to the deadline. A Loop is not asked again.
			context = max(context, 2)
		}
		c.Context = contexts[context]
		for range 1 + random.IntN(8) {
			c.Steps = append(c.Steps, random.IntN(len(loopSteps)))
		}
		t.Run(fmt.Sprint(i%len(settings), " ", i), c.test)
	}
}

func (c loopCase) test(t *testing.T) {
	var want, got loopTrace
	synctest.Test(t, func(t *testing.T) {
		want = c.play(t, func(tr *transport, _ httpfake.Base) http.RoundTripper { return tr })
	})
	synctest.Test(t, func(t *testing.T) {
		got = c.play(t, func(tr *transport, base httpfake.Base) http.RoundTripper { return loopTransport{tr, base} })
	})
	ignored := cmpopts.IgnoreFields(awsretry.Attempt{}, "Request", "Response", "Err")
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Errorf("steps %v, target %q (-RoundTrip +Loop):\n%s", c.Steps, c.Target, diff)
	}
}

// begin begins a call and waits for the turn of its first attempt.
func begin(t *testing.T, tr *transport) decider {
	t.Helper()
	loop, err := newLoop(tr, httpfake.Request(t, t.Context(), "GET", nil))
	if err == nil {
		err = loop.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
	return loop
}

// Another library may end a call before it has the outcome of the attempt.
func TestLoopSettlesAfterEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{Mode: awsretry.Adaptive, RateLimit: rateLimit{Pacing: awsretry.ScaledPacing}}
		rateAfter := func(calls, status int) float64 {
			for range calls {
				loop := begin(t, tr)
				loop.End()
				time.Sleep(10 * time.Millisecond)
				loop.Classify(&http.Response{StatusCode: status}, "", nil)
				loop.Settle()
			}
			state, _ := tr.State("service.example")
			return state.SendRate
		}
		rateAfter(200, http.StatusOK)
		first := rateAfter(1, http.StatusTooManyRequests)
		if last := rateAfter(100, http.StatusTooManyRequests); last > first/2 {
			t.Errorf("the send rate is %v after the first throttling, and %v after a hundred", first, last)
		}
	})
}

// An attempt that has waited for its turn and is not sent costs nothing.
func TestLoopUnsentAttempt(t *testing.T) {
	for _, sent := range []bool{false, true} {
		inBubble(t, fmt.Sprint("sent ", sent), func(t *testing.T) {
			tr := &transport{Mode: awsretry.Adaptive, Quota: quota{InitialCost: 7}}
			loop := func(do func(decider)) awsretry.State {
				loop := begin(t, tr)
				do(loop)
				loop.End()
				state, _ := tr.State("service.example")
				return state
			}
			loop(func(l decider) { // so that the limiter limits
				l.Classify(&http.Response{StatusCode: http.StatusTooManyRequests}, "", nil)
				l.Settle()
			})
			time.Sleep(time.Minute)
			tokens, wait := 0, time.Duration(0)
			for range 3 {
				state := loop(func(l decider) {
					if sent {
						l.Classify(nil, "", nil)
					}
				})
				tokens, wait = state.Tokens, state.ExpectedWait
			}
			if lost := tokens != 500-7; lost != sent || wait > 0 != sent {
				t.Errorf("there are %d tokens, and the next attempt waits for %v", tokens, wait)
			}
		})
	}
}

// Delay, which has no call, finds what the response asks for.
func TestDelayAfterRetryAfter(t *testing.T) {
	for _, req := range []*http.Request{nil, {}, httpfake.Request(t, t.Context(), "GET", nil)} {
		resp := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"30"}}}
		got, err := (&transport{}).DelayAfter(retrier.Seal{}, awsretry.Attempt{
			Request: req, Number: 1, Class: awsretry.Throttled, Response: resp,
		})
		if err != nil || got < 30*time.Second || got > 45*time.Second {
			t.Errorf("%v, %v, want 30s and a spread", got, err)
		}
	}
}

// A Loop reports a refusal as RoundTrip does.
func TestRefusedCallOfALoop(t *testing.T) {
	var seen []awsretry.Attempt
	tr := &transport{
		Quota:   awsretry.QuotaConfig{Capacity: 5, InitialCost: 5},
		Observe: func(a awsretry.Attempt) { seen = append(seen, a) },
	}
	for range 2 {
		loop, err := newLoop(tr, httpfake.Request(t, t.Context(), "GET", nil))
		if err != nil {
			t.Fatal(err)
		}
		if loop.Wait() == nil {
			loop.Classify(nil, "", errReset)
			loop.Decide(awsretry.StopDisabled)
		}
		loop.End()
	}
	if len(seen) != 2 || seen[1].Number != 0 || seen[1].Stop != awsretry.StopQuota {
		t.Errorf("%+v", seen)
	}
}
