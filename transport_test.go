package awsretry_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
	"github.com/google/go-cmp/cmp"
)

// A vector is one call, or several calls on one Transport, of
// testdata/vectors/retry.json.
type vector struct {
	Name        string
	Source      string // where the AWS SDKs publish it, or "derived" from their rules
	Mode        awsretry.Mode
	Revision    awsretry.Revision
	MaxAttempts int
	MaxBackoff  string // "" is the default
	Capacity    int
	Target      string
	vectorCall
	Calls      []vectorCall // one after the other, in place of the one call
	Concurrent bool         // the Calls begin at the same time
	Left       int          // tokens after concurrent calls
}

// A vectorCall is one call of a vector.
type vectorCall struct {
	Answers []struct {
		Status int
		Header map[string]string
	}
	Waited string   // for a send token, before the first attempt
	Pauses []string // before each retry
	End    string   // the delay of a long poll, before its response is returned
	Tokens []int    // after each decision
	Stop   awsretry.Stop
	Status int
}

// The AWS documents' examples and the AWS SDKs' own test cases, without jitter.
func TestVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/vectors/retry.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		if v.Revision == awsretry.Revision2026 && v.Source == "" {
			t.Errorf("%s: no source", v.Name)
		}
		t.Run(v.Name, func(t *testing.T) { synctest.Test(t, v.test) })
	}
}

func (v vector) test(t *testing.T) {
	tr := &awsretry.Transport{
		Mode: v.Mode, Revision: v.Revision, MaxAttempts: v.MaxAttempts,
		Quota:            awsretry.QuotaConfig{Capacity: v.Capacity},
		Backoff:          awsretry.Exponential{Max: duration(t, v.MaxBackoff), Jitter: awsretry.NoJitter},
		RetryAfterSpread: -1,
	}
	tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
		return req.Context().Value(playedKey{}).(*played).answer(req)
	})
	if v.Calls == nil {
		v.vectorCall.test(t, tr, v.Target)
		return
	}
	var calls sync.WaitGroup
	for _, c := range v.Calls {
		if !v.Concurrent {
			c.test(t, tr, v.Target)
			continue
		}
		calls.Go(func() { c.test(t, tr, v.Target) })
	}
	calls.Wait()
	if got := contract.TokensOf(t, tr); v.Concurrent && got != v.Left {
		t.Errorf("%d tokens left, want %d", got, v.Left)
	}
}

// played is what became of a vectorCall so far. The context of the call has it.
type played struct {
	call   *vectorCall
	sentAt []time.Time
}

type playedKey struct{}

func (p *played) answer(req *http.Request) (*http.Response, error) {
	if len(p.sentAt) == len(p.call.Answers) {
		return nil, errors.New("more attempts than answers")
	}
	next := p.call.Answers[len(p.sentAt)]
	p.sentAt = append(p.sentAt, time.Now())
	resp := httpfake.Response(req, next.Status, io.NopCloser(strings.NewReader("")))
	for name, value := range next.Header {
		resp.Header.Set(name, value)
	}
	return resp, nil
}

func (v vectorCall) test(t *testing.T, tr *awsretry.Transport, target string) {
	p := &played{call: &v}
	var tokens []int
	var records []awsretry.Attempt
	ctx := awsretry.WithObserver(context.WithValue(t.Context(), playedKey{}, p), func(a awsretry.Attempt) {
		records = append(records, a)
		tokens = append(tokens, contract.TokensOf(t, tr))
	})
	req := httpfake.Request(t, ctx, "POST", nil)
	if target != "" {
		req.Header.Set("X-Amz-Target", target)
	}
	start := time.Now()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Error(err)
		return
	}
	if len(p.sentAt) != len(v.Answers) {
		t.Errorf("%d attempts, want %d", len(p.sentAt), len(v.Answers))
		return
	}
	if got, want := p.sentAt[0].Sub(start), duration(t, v.Waited); got != want {
		t.Errorf("the first attempt waited %v, want %v", got, want)
	}
	var delays, want []time.Duration
	for i := 1; i < len(p.sentAt); i++ {
		delays = append(delays, p.sentAt[i].Sub(p.sentAt[i-1]))
	}
	for _, pause := range v.Pauses {
		want = append(want, duration(t, pause))
	}
	if diff := cmp.Diff(want, delays); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
	end := duration(t, v.End)
	if got := time.Since(p.sentAt[len(p.sentAt)-1]); got != end {
		t.Errorf("the response came %v after the last attempt, want %v", got, end)
	}
	if diff := cmp.Diff(v.Tokens, tokens); v.Tokens != nil && diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	if resp.StatusCode != v.Status {
		t.Errorf("status %d, want %d", resp.StatusCode, v.Status)
	}
	last := records[len(records)-1]
	if last.Stop != v.Stop || last.Delay != end || last.Number != len(v.Answers) {
		t.Errorf("the last attempt is %d, stop %q, delay %v; want %d, %q, %v",
			last.Number, last.Stop, last.Delay, len(v.Answers), v.Stop, end)
	}
	record, ok := awsretry.Outcome(resp)
	if want := len(v.Answers) > 1 || last.Class != awsretry.Success; ok != want {
		t.Errorf("Outcome reports %v, want %v", ok, want)
	}
	if ok && (record.Stop != v.Stop || record.Number != len(v.Answers) || record.Response != resp) {
		t.Errorf("Outcome is %+v", record)
	}
}

// duration returns the duration that s says, 0 if s is empty.
func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Error(err)
	}
	return d
}

// When the attempts run out, RoundTrip returns the last transport error.
func TestTransportError(t *testing.T) {
	refused := errors.New("connection refused")
	tr := &awsretry.Transport{Backoff: contract.Delay(0), Base: failing(refused)}
	resp, err := get(t, tr)
	var e *awsretry.Error
	if resp != nil || !errors.Is(err, refused) || !errors.As(err, &e) {
		t.Fatalf("%v, %v", resp, err)
	}
	if e.Attempts != 3 || e.Stop != awsretry.StopMaxAttempts || e.Timeout() || !e.Temporary() {
		t.Errorf("%+v", e)
	}
	if got := contract.TokensOf(t, tr); got != 490 {
		t.Errorf("%d tokens, want 490", got)
	}
}

// What keeps a 503 from being retried, and what does not.
func TestStops(t *testing.T) {
	sdkRequest := func(value string) func(*awsretry.Transport, *http.Request) *http.Request {
		return func(_ *awsretry.Transport, req *http.Request) *http.Request {
			req.Header.Set("Amz-Sdk-Request", value)
			return req
		}
	}
	for _, tt := range []struct {
		name    string
		change  func(*awsretry.Transport, *http.Request) *http.Request
		want    awsretry.Stop
		retried bool
	}{
		{"max attempts 1", func(tr *awsretry.Transport, req *http.Request) *http.Request {
			tr.MaxAttempts = 1
			return req
		}, awsretry.StopMaxAttempts, false},
		{"WithoutRetry", func(_ *awsretry.Transport, req *http.Request) *http.Request {
			return req.WithContext(awsretry.WithoutRetry(req.Context()))
		}, awsretry.StopDisabled, false},
		{"an outer loop", sdkRequest("attempt=1; max=3"), awsretry.StopOuterRetry, false},
		{"an outer loop with ttl", sdkRequest("ttl=20260101T000000Z; attempt=3; max=3"),
			awsretry.StopOuterRetry, false},
		{"an outer loop of one", sdkRequest("attempt=1; max=1"), awsretry.StopSuccess, true},
		{"an unreadable outer loop", sdkRequest("attempt=1; max=many"), awsretry.StopSuccess, true},
		{"an outer loop and NestedRetries", func(tr *awsretry.Transport, req *http.Request) *http.Request {
			tr.NestedRetries = true
			return sdkRequest("attempt=1; max=3")(tr, req)
		}, awsretry.StopSuccess, true},
		{"a policy", func(tr *awsretry.Transport, req *http.Request) *http.Request {
			tr.Policy = func(a *awsretry.Attempt) awsretry.Class {
				if a.Request != req || a.Response == nil || a.Number < 1 {
					t.Errorf("the policy sees %+v", a)
				}
				return awsretry.Permanent
			}
			return req
		}, awsretry.StopPermanent, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := &awsretry.Transport{Base: httpfake.Statuses(503, 200), Backoff: contract.Delay(0)}
			var last awsretry.Attempt
			tr.Observe = func(a awsretry.Attempt) { last = a }
			resp, err := tr.RoundTrip(tt.change(tr, httpfake.Request(t, t.Context(), "GET", nil)))
			if err != nil {
				t.Fatal(err)
			}
			if last.Stop != tt.want || (last.Number > 1) != tt.retried || (resp.StatusCode == 200) != tt.retried {
				t.Errorf("stopped by %q after %d attempts with %d, want %q",
					last.Stop, last.Number, resp.StatusCode, tt.want)
			}
		})
	}
}

// When the quota refuses the retry of a long poll, the delay comes before the
// response, so that the caller's own loop does not spin.
func TestLongPollPausesBeforeGivingUp(t *testing.T) {
	target := func(req *http.Request) { req.Header.Set("X-Amz-Target", "AmazonSQS.ReceiveMessage") }
	query := func(req *http.Request) { req.URL.RawQuery = "Action=ReceiveMessage&Version=2012-11-05" }
	other := func(req *http.Request) { req.URL.RawQuery = "Action=SendMessage" }
	every := func(*http.Request) bool { return true }
	for _, tt := range []struct {
		name     string
		revision awsretry.Revision
		longPoll func(*http.Request) bool
		change   func(*http.Request)
		want     time.Duration
	}{
		{"2026, by target", awsretry.Revision2026, nil, target, 50 * time.Millisecond},
		{"2026, by query", awsretry.Revision2026, nil, query, 50 * time.Millisecond},
		{"2026, another operation", awsretry.Revision2026, nil, other, 0},
		{"2026, by function", awsretry.Revision2026, every, other, 50 * time.Millisecond},
		{"classic", awsretry.Classic, nil, target, 0},
		{"classic, by function", awsretry.Classic, every, other, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &awsretry.Transport{
					Revision: tt.revision, LongPoll: tt.longPoll, Base: httpfake.Statuses(503), Backoff: noJitter,
					Quota: awsretry.QuotaConfig{Capacity: 1},
				}
				req := httpfake.Request(t, t.Context(), "POST", nil)
				tt.change(req)
				start := time.Now()
				resp, err := tr.RoundTrip(req)
				if took := time.Since(start); err != nil || took != tt.want {
					t.Fatalf("%v after %v, want it after %v", err, took, tt.want)
				}
				if record, _ := awsretry.Outcome(resp); record.Stop != awsretry.StopQuota || record.Number != 1 {
					t.Errorf("%+v", record)
				}
			})
		})
	}
}

// LongPoll delays what the retry token bucket ends, whatever the mode and the
// outcome, and nothing else.
func TestLongPollDelaysOnlyWhatTheQuotaEnds(t *testing.T) {
	reset := httpfake.Base(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF })
	asks := httpfake.Base(func(req *http.Request) (*http.Response, error) {
		return httpfake.Response(req, 503, http.NoBody, "Retry-After", "7"), nil
	})
	for _, tt := range []struct {
		name    string
		tr      *awsretry.Transport
		timeout time.Duration
		stop    awsretry.Stop
		delay   time.Duration
	}{
		{"a response", &awsretry.Transport{Base: httpfake.Statuses(503)}, time.Hour, awsretry.StopQuota, time.Second},
		{"an error", &awsretry.Transport{Base: reset}, time.Hour, awsretry.StopQuota, time.Second},
		{"Retry-After", &awsretry.Transport{Base: asks}, time.Hour, awsretry.StopQuota, 7 * time.Second},
		{
			"adaptive mode", &awsretry.Transport{Base: httpfake.Statuses(429), Mode: awsretry.Adaptive}, time.Hour,
			awsretry.StopQuota, time.Second,
		},
		{
			"the last attempt", &awsretry.Transport{Base: httpfake.Statuses(503), MaxAttempts: 1}, time.Hour,
			awsretry.StopMaxAttempts, 0,
		},
		{
			"a deadline before the end of the delay", &awsretry.Transport{Base: httpfake.Statuses(503)}, time.Second / 2,
			awsretry.StopDeadline, 0,
		},
		{"not retryable", &awsretry.Transport{Base: httpfake.Statuses(404)}, time.Hour, awsretry.StopPermanent, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var last awsretry.Attempt
				tr := tt.tr
				tr.LongPoll = func(*http.Request) bool { return true }
				tr.Quota, tr.Backoff, tr.RetryAfterSpread = awsretry.QuotaConfig{Capacity: 1}, noJitter, -1
				tr.Observe = func(a awsretry.Attempt) { last = a }
				ctx, cancel := context.WithTimeout(t.Context(), tt.timeout)
				defer cancel()
				start := time.Now()
				if resp, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil)); err == nil {
					resp.Body.Close()
				}
				if took := time.Since(start); took != tt.delay || last.Stop != tt.stop || last.Delay != tt.delay {
					t.Errorf("stopped by %q after %v, with the delay %v; want %q, %v",
						last.Stop, took, last.Delay, tt.stop, tt.delay)
				}
			})
		})
	}
}

// The documents' numbers of attempts, and one for none.
func TestDefaultAttempts(t *testing.T) {
	for _, tt := range []struct {
		mode      awsretry.Mode
		max, want int
	}{
		{"", 0, 3}, {awsretry.Standard, 0, 3}, {awsretry.Adaptive, 0, 3}, {awsretry.Legacy, 0, 4}, {"", 1, 1}, {"", 5, 5},
	} {
		attempts := 0
		tr := &awsretry.Transport{
			Mode: tt.mode, MaxAttempts: tt.max, Base: httpfake.Statuses(500), Backoff: contract.Delay(0),
			Observe: func(awsretry.Attempt) { attempts++ },
		}
		if _, err := get(t, tr); err != nil || attempts != tt.want {
			t.Errorf("%q with MaxAttempts %d: %v after %d attempts, want %d", tt.mode, tt.max, err, attempts, tt.want)
		}
	}
}

// Legacy mode has four attempts, and delays of its own.
func TestLegacy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sentAt []time.Time
		base := httpfake.Base(func(req *http.Request) (*http.Response, error) {
			sentAt = append(sentAt, time.Now())
			if len(sentAt) == 2 {
				return httpfake.Response(req, 429, http.NoBody, "Retry-After", "10"), nil
			}
			return httpfake.Response(req, 500, http.NoBody), nil
		})
		resp, err := get(t, &awsretry.Transport{Mode: awsretry.Legacy, Base: base})
		if err != nil || resp.StatusCode != 500 || len(sentAt) != 4 {
			t.Fatal(resp, err, len(sentAt))
		}
		for i, want := range [][2]time.Duration{
			{30 * time.Millisecond, 60 * time.Millisecond},
			{11 * time.Second, 12 * time.Second}, // (rand[0, 500 ms) + 500 ms) * 2, and Retry-After
			{120 * time.Millisecond, 240 * time.Millisecond},
		} {
			if delay := sentAt[i+1].Sub(sentAt[i]); delay < want[0] || delay > want[1] {
				t.Errorf("delay %d is %v, want %v", i+1, delay, want)
			}
		}
	})
}

// Backoff learns the number of the retry, the class of the failure and the
// delay before.
func TestBackoffArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type call struct {
			N     int
			Class awsretry.Class
			Last  time.Duration
		}
		var got []call
		statuses := httpfake.Statuses(500, 429, 503, 200)
		tr := &awsretry.Transport{
			MaxAttempts: 4, RetryAfterSpread: -1,
			Backoff: awsretry.BackoffFunc(func(n int, class awsretry.Class, last time.Duration) time.Duration {
				got = append(got, call{n, class, last})
				return time.Duration(n-1) * time.Second // the first one is negative
			}),
			Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
				resp, err := statuses(req)
				if resp.StatusCode == 429 {
					resp.Header.Set("Retry-After", "5")
				}
				return resp, err
			}),
		}
		start := time.Now()
		if _, err := get(t, tr); err != nil {
			t.Fatal(err)
		}
		want := []call{{0, awsretry.Transient, 0}, {1, awsretry.Throttled, 0}, {2, awsretry.Transient, 5 * time.Second}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if took := time.Since(start); took != 6*time.Second {
			t.Errorf("took %v, want 6s", took)
		}
	})
}

// noJitter is the backoff of a Transport's mode and revision without its
// jitter: b = 1 in the AWS documents' examples.
var noJitter = awsretry.Exponential{Jitter: awsretry.NoJitter}

// failing returns a Base that always fails.
func failing(err error) httpfake.Base {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// get sends a GET through rt.
func get(t *testing.T, rt http.RoundTripper) (*http.Response, error) {
	t.Helper()
	return rt.RoundTrip(httpfake.Request(t, t.Context(), "GET", nil))
}
