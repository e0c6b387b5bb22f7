package awsretry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/vectors"
)

// The AWS documents' examples and the AWS SDKs' own test cases, without jitter.
func TestVectors(t *testing.T) {
	for _, v := range vectors.Read(t, "testdata/vectors/retry.json") {
		if v.Revision == int(awsretry.Revision2026) && v.Source == "" {
			t.Errorf("%s: no source", v.Name)
		}
		t.Run(v.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &awsretry.Transport{
					Mode: awsretry.Mode(v.Mode), Revision: awsretry.Revision(v.Revision), MaxAttempts: v.MaxAttempts,
					Quota:            awsretry.QuotaConfig{Capacity: v.Capacity},
					Backoff:          awsretry.Exponential{Max: time.Duration(v.MaxBackoff), Jitter: awsretry.NoJitter},
					RetryAfterSpread: -1,
					Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
						return req.Context().Value(playedKey{}).(*played).answer(req)
					}),
				}
				play := func(c vectors.Call) vectors.Trace { return playVector(t, tr, v.Target, c) }
				v.Test(t, play, func() int { return tokensOf(t, tr) })
			})
		})
	}
}

// played is what was seen of a vector's call so far. The context of the call
// has it.
type played struct {
	vectors.Trace
	call vectors.Call
}

type playedKey struct{}

func (p *played) answer(req *http.Request) (*http.Response, error) {
	if len(p.Sent) == len(p.call.Answers) {
		return nil, errors.New("more attempts than answers")
	}
	next := p.call.Answers[len(p.Sent)]
	p.Sent = append(p.Sent, time.Now())
	resp := httpfake.Response(req, next.Status, io.NopCloser(strings.NewReader("")))
	for name, value := range next.Header {
		resp.Header.Set(name, value)
	}
	return resp, nil
}

// playVector makes one call of a vector. It also compares the records of the
// attempts with the call.
func playVector(t *testing.T, tr *awsretry.Transport, target string, c vectors.Call) vectors.Trace {
	p := &played{Trace: vectors.Trace{Start: time.Now()}, call: c}
	var last awsretry.Attempt
	ctx := awsretry.WithObserver(context.WithValue(t.Context(), playedKey{}, p), func(a awsretry.Attempt) {
		last, p.Stop = a, string(a.Stop)
		p.Tokens = append(p.Tokens, tokensOf(t, tr))
	})
	req := httpfake.Request(t, ctx, "POST", nil)
	if target != "" {
		req.Header.Set("X-Amz-Target", target)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil || resp.StatusCode != c.Status {
		t.Errorf("%v, %v, want %d", resp, err, c.Status)
		return p.Trace
	}
	if last.Delay != time.Duration(c.End) || last.Number != len(c.Answers) {
		t.Errorf("the last attempt is %d, delay %v; want %d, %v", last.Number, last.Delay, len(c.Answers), c.End)
	}
	record, ok := awsretry.Outcome(resp)
	if want := len(c.Answers) > 1 || last.Class != awsretry.Success; ok != want {
		t.Errorf("Outcome reports %v, want %v", ok, want)
	}
	if ok && (string(record.Stop) != c.Stop || record.Number != len(c.Answers) || record.Response != resp) {
		t.Errorf("Outcome is %+v", record)
	}
	return p.Trace
}

// When the attempts run out, RoundTrip returns the last transport error.
func TestTransportError(t *testing.T) {
	refused := errors.New("connection refused")
	tr := &awsretry.Transport{Backoff: delayed(0), Base: failing(refused)}
	resp, err := get(t, tr)
	var e *awsretry.Error
	if resp != nil || !errors.Is(err, refused) || !errors.As(err, &e) ||
		e.Attempts != 3 || e.Stop != awsretry.StopMaxAttempts {
		t.Fatalf("%v, %v", resp, err)
	}
	if got := tokensOf(t, tr); got != 490 {
		t.Errorf("%d tokens, want 490", got)
	}
}

// What keeps a 503 from being retried, and what does not.
func TestStops(t *testing.T) {
	permanent := func(a *awsretry.Attempt) awsretry.Class {
		if a.Request == nil || a.Response == nil || a.Number < 1 {
			t.Errorf("the policy sees %+v", a)
		}
		return awsretry.Permanent
	}
	const inLoop = "attempt=1; max=3"
	for _, tt := range []struct {
		name   string
		tr     *transport
		with   func(context.Context) context.Context
		header string // of an AWS SDK
		want   awsretry.Stop
	}{
		{"max attempts 1", &transport{MaxAttempts: 1}, nil, "", awsretry.StopMaxAttempts},
		{"WithoutRetry", &transport{}, awsretry.WithoutRetry, "", awsretry.StopDisabled},
		{"an outer loop", &transport{}, nil, inLoop, awsretry.StopOuterRetry},
		{"an outer loop of one", &transport{}, nil, "attempt=1; max=1", awsretry.StopSuccess},
		{"an outer loop and NestedRetries", &transport{NestedRetries: true}, nil, inLoop, awsretry.StopSuccess},
		{"a policy", &transport{Policy: permanent}, nil, "", awsretry.StopPermanent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var last awsretry.Attempt
			tt.tr.Base, tt.tr.Backoff = httpfake.Statuses(503, 200), delayed(0)
			tt.tr.Observe = func(a awsretry.Attempt) { last = a }
			ctx := t.Context()
			if tt.with != nil {
				ctx = tt.with(ctx)
			}
			req := httpfake.Request(t, ctx, "GET", nil)
			req.Header.Set("Amz-Sdk-Request", tt.header)
			resp, err := tt.tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			retried := tt.want == awsretry.StopSuccess
			if last.Stop != tt.want || (last.Number > 1) != retried || (resp.StatusCode == 200) != retried {
				t.Errorf("stopped by %q after %d attempts with %d, want %q",
					last.Stop, last.Number, resp.StatusCode, tt.want)
			}
		})
	}
}

// When the quota refuses the retry of a long poll, the delay comes before the
// response, so that the caller's own loop does not spin. LongPoll delays nothing
// else.
func TestLongPoll(t *testing.T) {
	every := func(*http.Request) bool { return true }
	asks := httpfake.Base(func(req *http.Request) (*http.Response, error) {
		return httpfake.Response(req, 503, http.NoBody, "Retry-After", "7"), nil
	})
	const query, other = "Action=ReceiveMessage&Version=2012-11-05", "Action=SendMessage"
	for _, tt := range []struct {
		name  string
		tr    *transport
		query string
		stop  awsretry.Stop
		delay time.Duration
	}{
		{"2026", &transport{Revision: awsretry.Revision2026}, query, awsretry.StopQuota, 50 * time.Millisecond},
		{"2026, another operation", &transport{Revision: awsretry.Revision2026}, other, awsretry.StopQuota, 0},
		{"classic", &transport{}, query, awsretry.StopQuota, 0},
		{"classic, by function", &transport{LongPoll: every}, other, awsretry.StopQuota, time.Second},
		{"an error", &transport{LongPoll: every, Base: failing(io.EOF)}, other, awsretry.StopQuota, time.Second},
		{"Retry-After", &transport{LongPoll: every, Base: asks}, other, awsretry.StopQuota, 7 * time.Second},
		{"adaptive mode", &transport{LongPoll: every, Base: httpfake.Statuses(429), Mode: awsretry.Adaptive}, other,
			awsretry.StopQuota, time.Second},
		{"a deadline before the end of the delay", &transport{LongPoll: every}, other, awsretry.StopDeadline, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var last awsretry.Attempt
				tr := tt.tr
				if tr.Base == nil {
					tr.Base = httpfake.Statuses(503)
				}
				tr.Observe = func(a awsretry.Attempt) { last = a }
				tr.Quota, tr.Backoff, tr.RetryAfterSpread = awsretry.QuotaConfig{Capacity: 1}, noJitter, -1
				timeout := time.Hour
				if tt.stop == awsretry.StopDeadline {
					timeout = time.Second / 2
				}
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				req := httpfake.Request(t, ctx, "POST", nil)
				req.URL.RawQuery = tt.query
				start := time.Now()
				resp, err := tr.RoundTrip(req)
				if stopOf(resp, err) != tt.stop || last.Number != 1 || last.Delay != tt.delay ||
					time.Since(start) != tt.delay {
					t.Errorf("%v, %v, %+v after %v; want %q after %v",
						resp, err, last, time.Since(start), tt.stop, tt.delay)
				}
			})
		})
	}
}

// Legacy mode has four attempts, and its own delays.
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
// delay before. A negative delay is none.
func TestBackoffArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		tr := &awsretry.Transport{
			MaxAttempts: 4, RetryAfterSpread: -1,
			Backoff: awsretry.BackoffFunc(func(n int, class awsretry.Class, last time.Duration) time.Duration {
				got = append(got, fmt.Sprint(n, " ", class, " ", last))
				return time.Duration(n-1) * time.Second
			}),
		}
		tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
			if len(got) == 1 {
				return httpfake.Response(req, 429, http.NoBody, "Retry-After", "5"), nil
			}
			return httpfake.Response(req, 500, http.NoBody), nil
		})
		start := time.Now()
		if _, err := get(t, tr); err != nil {
			t.Fatal(err)
		}
		if want := []string{"0 transient 0s", "1 throttled 0s", "2 transient 5s"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
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

// delayed returns a Backoff whose every delay is d.
func delayed(d time.Duration) awsretry.Backoff {
	return awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return d })
}

// stopOf returns why no further attempt was made, as the error says it or else
// the record of the response. It is "" if neither says anything.
func stopOf(resp *http.Response, err error) awsretry.Stop {
	if e := new(awsretry.Error); errors.As(err, &e) {
		return e.Stop
	}
	record, _ := awsretry.Outcome(resp)
	return record.Stop
}

// tokensOf returns how many retry tokens the host of httpfake.Request has left.
func tokensOf(t testing.TB, tr *awsretry.Transport) int {
	t.Helper()
	state, ok := tr.State("service.example")
	if !ok {
		t.Fatal("there is no partition for service.example")
	}
	return state.Tokens
}
