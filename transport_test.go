package awsretry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"github.com/google/go-cmp/cmp"
)

// roundTripper is a Base made of a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	return f(req)
}

func answer(status int, body string) *http.Response {
	return &http.Response{
		Status:        fmt.Sprintf("%d %s", status, http.StatusText(status)),
		StatusCode:    status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        http.Header{},
		Body:          io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)),
	}
}

// sequence answers with one status after the other, and with the last one from then on.
func sequence(statuses ...int) roundTripper {
	var n atomic.Int64
	return func(*http.Request) (*http.Response, error) {
		i := min(int(n.Add(1)), len(statuses)) - 1
		return answer(statuses[i], ""), nil
	}
}

// failing never answers.
func failing(err error) roundTripper {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

func get(t *testing.T, rt http.RoundTripper) (*http.Response, error) {
	t.Helper()
	return rt.RoundTrip(newRequest(t, "GET", nil))
}

func tokens(t *testing.T, tr *awsretry.Transport) int {
	t.Helper()
	state, ok := tr.State("service.example")
	if !ok {
		t.Fatal("the partition is missing")
	}
	return state.Tokens
}

type vector struct {
	Name        string
	Mode        awsretry.Mode
	Revision    awsretry.Revision
	MaxAttempts int
	Capacity    int
	Target      string
	Answers     []struct {
		Status int
		Header map[string]string
	}
	Pauses []string
	Tokens []int // after each decision
	Stop   awsretry.Stop
	Status int
}

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
		t.Run(v.Name, func(t *testing.T) { synctest.Test(t, v.run) })
	}
}

func (v vector) run(t *testing.T) {
	var sentAt []time.Time
	tr := &awsretry.Transport{
		Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			a := v.Answers[len(sentAt)]
			sentAt = append(sentAt, time.Now())
			resp := answer(a.Status, "")
			for name, value := range a.Header {
				resp.Header.Set(name, value)
			}
			return resp, nil
		}),
		Mode: v.Mode, Revision: v.Revision, MaxAttempts: v.MaxAttempts, Quota: awsretry.QuotaConfig{Capacity: v.Capacity},
		RetryAfterSpread: -1,
	}
	var left []int
	var told []awsretry.Attempt
	tr.Observe = func(a awsretry.Attempt) {
		told = append(told, a)
		left = append(left, tokens(t, tr))
	}
	awsretry.WithoutJitter(tr)
	req := newRequest(t, "POST", nil)
	if v.Target != "" {
		req.Header.Set("X-Amz-Target", v.Target)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if len(sentAt) != len(v.Answers) {
		t.Fatalf("sent %d times, want %d", len(sentAt), len(v.Answers))
	}
	var pauses []string
	for i := 1; i < len(sentAt); i++ {
		pauses = append(pauses, sentAt[i].Sub(sentAt[i-1]).String())
	}
	want := append([]string(nil), v.Pauses...)
	for i, p := range want {
		d, _ := time.ParseDuration(p)
		want[i] = d.String()
	}
	if diff := cmp.Diff(want, pauses); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
	// The tokens seen after a success are those after it was booked.
	if diff := cmp.Diff(v.Tokens, left); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	if resp.StatusCode != v.Status {
		t.Errorf("status %d, want %d", resp.StatusCode, v.Status)
	}
	last := told[len(told)-1]
	if last.Stop != v.Stop || last.Delay != 0 || last.Number != len(v.Answers) {
		t.Errorf("the last attempt is %d, stop %q, delay %v; want %d, %q, 0", last.Number, last.Stop, last.Delay, len(v.Answers), v.Stop)
	}
	outcome, ok := awsretry.Outcome(resp)
	if wantOutcome := len(v.Answers) > 1 || last.Class != awsretry.Success; ok != wantOutcome {
		t.Errorf("Outcome reports %v, want %v", ok, wantOutcome)
	} else if ok && (outcome.Stop != v.Stop || outcome.Number != len(v.Answers) || outcome.Response != resp) {
		t.Errorf("Outcome is %+v", outcome)
	}
}

func TestTransportErrorComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		tr := &awsretry.Transport{Base: failing(refused)}
		resp, err := get(t, tr)
		var e *awsretry.Error
		if resp != nil || !errors.Is(err, refused) || !errors.As(err, &e) {
			t.Fatalf("got %v, %v", resp, err)
		}
		if e.Attempts != 3 || e.Stop != awsretry.StopMaxAttempts || e.Timeout() || !e.Temporary() {
			t.Errorf("got %+v", e)
		}
		if got := tokens(t, tr); got != 490 {
			t.Errorf("%d tokens, want 490", got)
		}
	})
}

func TestTimeoutsCostMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &awsretry.Transport{Base: failing(os.ErrDeadlineExceeded), MaxAttempts: 2}
		_, err := get(t, tr)
		var e *awsretry.Error
		if !errors.As(err, &e) || !e.Timeout() {
			t.Fatalf("got %v", err)
		}
		if got := tokens(t, tr); got != 490 {
			t.Errorf("%d tokens, want 490", got)
		}
	})
}

func TestFirstSuccessesRefillTheBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &awsretry.Transport{Base: sequence(500, 500, 500, 200, 404, 200, 200)}
		want := []int{490, 491, 491, 492, 493}
		for i, w := range want {
			if _, err := get(t, tr); err != nil {
				t.Fatal(err)
			}
			if got := tokens(t, tr); got != w {
				t.Errorf("after request %d: %d tokens, want %d", i+1, got, w)
			}
		}
	})
}

func TestQuotaParameters(t *testing.T) {
	tests := []struct {
		name     string
		config   awsretry.QuotaConfig
		statuses []int
		want     int // tokens afterwards
		sent     int
	}{
		{"retry cost", awsretry.QuotaConfig{RetryCost: 7}, []int{500, 500, 404}, 486, 3},
		{"throttling cost", awsretry.QuotaConfig{ThrottlingCost: 5}, []int{429, 429, 404}, 490, 3},
		{"retries are free", awsretry.QuotaConfig{Capacity: 1, RetryCost: -1}, []int{500, 500, 500}, 1, 3},
		{"initial cost", awsretry.QuotaConfig{Capacity: 10, InitialCost: 3}, []int{200}, 8, 1},
		{"initial cost, failing", awsretry.QuotaConfig{Capacity: 10, InitialCost: 3}, []int{404}, 7, 1},
		{"initial cost and retry", awsretry.QuotaConfig{Capacity: 10, InitialCost: 3}, []int{500, 200}, 7, 2},
		{"success increment", awsretry.QuotaConfig{Capacity: 10, InitialCost: 3, SuccessIncrement: 2}, []int{200}, 9, 1},
		{"no success increment", awsretry.QuotaConfig{Capacity: 10, InitialCost: 3, SuccessIncrement: -1}, []int{200}, 7, 1},
		{"refill with time", awsretry.QuotaConfig{Capacity: 20, RefillPerSecond: 1}, []int{500, 500, 404}, 13, 3}, // 3 s of pauses
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				base := sequence(tt.statuses...)
				tr := &awsretry.Transport{Quota: tt.config, Base: roundTripper(func(req *http.Request) (*http.Response, error) {
					sent++
					return base(req)
				})}
				awsretry.WithoutJitter(tr)
				if _, err := get(t, tr); err != nil {
					t.Fatal(err)
				}
				if got := tokens(t, tr); got != tt.want || sent != tt.sent {
					t.Errorf("%d tokens after %d attempts, want %d after %d", got, sent, tt.want, tt.sent)
				}
			})
		})
	}
}

func TestNoQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &awsretry.Transport{Base: sequence(500), MaxAttempts: 200, Quota: awsretry.QuotaConfig{Capacity: -1}}
		resp, err := get(t, tr)
		if err != nil {
			t.Fatal(err)
		}
		if outcome, _ := awsretry.Outcome(resp); outcome.Number != 200 {
			t.Errorf("sent %d times, want 200", outcome.Number)
		}
	})
}

func TestInitialCostRefusesTheFirstAttempt(t *testing.T) {
	tr := &awsretry.Transport{Quota: awsretry.QuotaConfig{Capacity: 5, InitialCost: 3}, Base: sequence(404)}
	if _, err := get(t, tr); err != nil {
		t.Fatal(err)
	}
	_, err := get(t, tr)
	var e *awsretry.Error
	if !errors.Is(err, awsretry.ErrQuotaExceeded) || !errors.As(err, &e) || e.Attempts != 0 || e.Stop != awsretry.StopQuota {
		t.Errorf("got %v", err)
	}
}

func TestQuotaWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &awsretry.Transport{
			Base: sequence(500, 500, 200), Backoff: awsretry.BackoffFunc(noPause),
			Quota: awsretry.QuotaConfig{Capacity: 5, RefillPerSecond: 0.5, Wait: true},
		}
		start := time.Now()
		resp, err := get(t, tr)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		if got := time.Since(start); got != 10*time.Second { // for the second retry's 5 tokens
			t.Errorf("took %v, want 10s", got)
		}
	})
}

func TestQuotaWaitIsRefusedWhatTheBucketCannotHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &awsretry.Transport{Base: sequence(429, 200), Quota: awsretry.QuotaConfig{Capacity: 9, RefillPerSecond: 1, Wait: true}}
		start := time.Now()
		resp, err := get(t, tr)
		if err != nil || resp.StatusCode != 429 || time.Since(start) != 0 {
			t.Fatal(resp, err, time.Since(start))
		}
		if outcome, _ := awsretry.Outcome(resp); outcome.Stop != awsretry.StopQuota {
			t.Errorf("stop %q", outcome.Stop)
		}
	})
}

func TestStops(t *testing.T) {
	tests := []struct {
		name    string
		change  func(*awsretry.Transport, *http.Request) *http.Request
		want    awsretry.Stop
		retried bool
	}{
		{"max attempts 1", func(tr *awsretry.Transport, r *http.Request) *http.Request { tr.MaxAttempts = 1; return r }, awsretry.StopMaxAttempts, false},
		{"WithoutRetry", func(_ *awsretry.Transport, r *http.Request) *http.Request {
			return r.WithContext(awsretry.WithoutRetry(r.Context()))
		}, awsretry.StopDisabled, false},
		{"an outer loop", func(_ *awsretry.Transport, r *http.Request) *http.Request {
			r.Header.Set("Amz-Sdk-Request", "attempt=1; max=3")
			return r
		}, awsretry.StopOuterRetry, false},
		{"an outer loop with ttl", func(_ *awsretry.Transport, r *http.Request) *http.Request {
			r.Header.Set("Amz-Sdk-Request", "ttl=20260101T000000Z; attempt=3; max=3")
			return r
		}, awsretry.StopOuterRetry, false},
		{"an outer loop of one", func(_ *awsretry.Transport, r *http.Request) *http.Request {
			r.Header.Set("Amz-Sdk-Request", "attempt=1; max=1")
			return r
		}, awsretry.StopSuccess, true},
		{"an outer loop that cannot be read", func(_ *awsretry.Transport, r *http.Request) *http.Request {
			r.Header.Set("Amz-Sdk-Request", "attempt=1; max=many")
			return r
		}, awsretry.StopSuccess, true},
		{"an outer loop that is not minded", func(tr *awsretry.Transport, r *http.Request) *http.Request {
			tr.NestedRetries = true
			r.Header.Set("Amz-Sdk-Request", "attempt=1; max=3")
			return r
		}, awsretry.StopSuccess, true},
		{"a policy of one's own", func(tr *awsretry.Transport, r *http.Request) *http.Request {
			tr.Policy = func(a *awsretry.Attempt) awsretry.Class {
				if a.Request != r || a.Response == nil || a.Number < 1 {
					t.Errorf("the policy sees %+v", a)
				}
				return awsretry.Permanent
			}
			return r
		}, awsretry.StopPermanent, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &awsretry.Transport{Base: sequence(503, 200)}
				var told []awsretry.Attempt
				tr.Observe = func(a awsretry.Attempt) { told = append(told, a) }
				req := tt.change(tr, newRequest(t, "GET", nil))
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				if last := told[len(told)-1]; last.Stop != tt.want || (len(told) > 1) != tt.retried {
					t.Errorf("%d attempts, stop %q; want %q", len(told), last.Stop, tt.want)
				}
				if tt.retried != (resp.StatusCode == 200) {
					t.Errorf("status %d", resp.StatusCode)
				}
			})
		})
	}
}

func TestDeadlineIsKept(t *testing.T) {
	tests := []struct {
		deadline time.Duration
		attempts int
		took     time.Duration
	}{
		{500 * time.Millisecond, 1, 0},
		{time.Second, 1, 0}, // the pause would end with the deadline, and nothing could be sent
		{1001 * time.Millisecond, 2, time.Second},
		{3 * time.Second, 2, time.Second},
		{4 * time.Second, 3, 3 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.deadline.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &awsretry.Transport{Base: sequence(503)}
				awsretry.WithoutJitter(tr)
				ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
				defer cancel()
				start := time.Now()
				resp, err := tr.RoundTrip(newRequest(t, "GET", nil).WithContext(ctx))
				if err != nil {
					t.Fatal(err)
				}
				outcome, _ := awsretry.Outcome(resp)
				wantStop := awsretry.StopDeadline
				if tt.attempts == 3 {
					wantStop = awsretry.StopMaxAttempts
				}
				if outcome.Number != tt.attempts || outcome.Stop != wantStop || time.Since(start) != tt.took {
					t.Errorf("%d attempts, stop %q, took %v", outcome.Number, outcome.Stop, time.Since(start))
				}
			})
		})
	}
}

func TestPrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		tr := &awsretry.Transport{
			Base: roundTripper(func(req *http.Request) (*http.Response, error) {
				body, _ := io.ReadAll(req.Body)
				got = append(got, fmt.Sprintf("%s %s %s %d", req.URL.Path, req.Header.Get("Date"), body, awsretry.AttemptNumber(req.Context())))
				return answer(503, ""), nil
			}),
			Prepare: func(req *http.Request, attempt int) error {
				req.Header.Set("Date", time.Now().Format(time.TimeOnly))
				req.URL.Path = fmt.Sprint("/", attempt)
				return nil
			},
		}
		awsretry.WithoutJitter(tr)
		req := newRequest(t, "POST", strings.NewReader("data"))
		if _, err := tr.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		want := []string{"/1 00:00:00 data 1", "/2 00:00:01 data 2", "/3 00:00:03 data 3"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if req.Header.Get("Date") != "" || req.URL.Path != "/path" {
			t.Errorf("the caller's request was changed: %v %v", req.Header, req.URL)
		}
	})
}

func TestPrepareFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no credentials")
		tr := &awsretry.Transport{Base: sequence(503, 200), Prepare: func(_ *http.Request, attempt int) error {
			if attempt == 2 {
				return broken
			}
			return nil
		}}
		_, err := get(t, tr)
		var e *awsretry.Error
		if !errors.Is(err, broken) || !errors.As(err, &e) || e.Attempts != 1 {
			t.Errorf("got %v", err)
		}
		if !strings.Contains(err.Error(), "503") {
			t.Errorf("%q does not tell of the answer before", err)
		}
		if got := tokens(t, tr); got != 500 {
			t.Errorf("%d tokens, want 500", got)
		}
	})
}

func TestSDKHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts, ids []string
		tr := &awsretry.Transport{SDKHeaders: true, Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			attempts = append(attempts, req.Header.Get("amz-sdk-request"))
			ids = append(ids, req.Header.Get("amz-sdk-invocation-id"))
			return answer(503, ""), nil
		})}
		for range 2 {
			req := newRequest(t, "GET", nil)
			if _, err := tr.RoundTrip(req); err != nil {
				t.Fatal(err)
			}
			if len(req.Header) != 0 {
				t.Errorf("the caller's header was changed: %v", req.Header)
			}
		}
		one := []string{"attempt=1; max=3", "attempt=2; max=3", "attempt=3; max=3"}
		if diff := cmp.Diff(append(one, one...), attempts); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if ids[0] != ids[1] || ids[0] == ids[3] || len(ids[0]) != 36 {
			t.Errorf("invocation ids %q", ids)
		}
	})
}

func TestSDKHeadersLeaveASignatureAlone(t *testing.T) {
	const signed = "AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=amz-sdk-invocation-id;amz-sdk-request;host, Signature=0"
	inHeader := func(r *http.Request) { r.Header.Set("Authorization", signed) }
	inQuery := func(r *http.Request) { r.URL.RawQuery = "X-Amz-SignedHeaders=amz-sdk-request%3Bhost" }
	others := func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }
	resign := func(*http.Request, int) error { return nil }
	tests := []struct {
		name    string
		change  func(*http.Request)
		prepare func(*http.Request, int) error
		want    string
	}{
		{"signed", inHeader, nil, "attempt=1; max=1"},
		{"signed in the query", inQuery, nil, "attempt=1; max=1"},
		{"signed anew", inHeader, resign, "attempt=1; max=3"},
		{"not signed", others, nil, "attempt=1; max=3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			tr := &awsretry.Transport{SDKHeaders: true, Prepare: tt.prepare, Base: roundTripper(func(req *http.Request) (*http.Response, error) {
				got = req.Header.Get("Amz-Sdk-Request")
				return answer(200, ""), nil
			})}
			req := newRequest(t, "POST", nil)
			req.Header.Set("Amz-Sdk-Request", "attempt=1; max=1")
			tt.change(req)
			if _, err := tr.RoundTrip(req); err != nil || got != tt.want {
				t.Errorf("sent %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestLongPollPausesBeforeGivingUp(t *testing.T) {
	sqs := func(r *http.Request) *http.Request {
		r.Header.Set("X-Amz-Target", "AmazonSQS.ReceiveMessage")
		return r
	}
	query := func(r *http.Request) *http.Request {
		r.URL.RawQuery = "Action=ReceiveMessage&Version=2012-11-05"
		return r
	}
	other := func(r *http.Request) *http.Request { r.URL.RawQuery = "Action=SendMessage"; return r }
	mine := func(*http.Request) bool { return true }
	tests := []struct {
		name     string
		revision awsretry.Revision
		longPoll func(*http.Request) bool
		change   func(*http.Request) *http.Request
		want     time.Duration
	}{
		{"2026, by target", awsretry.Revision2026, nil, sqs, 50 * time.Millisecond},
		{"2026, by query", awsretry.Revision2026, nil, query, 50 * time.Millisecond},
		{"2026, another operation", awsretry.Revision2026, nil, other, 0},
		{"2026, by function", awsretry.Revision2026, mine, other, 50 * time.Millisecond},
		{"classic", awsretry.Classic, nil, sqs, 0},
		{"classic, by function", awsretry.Classic, mine, other, time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &awsretry.Transport{Revision: tt.revision, LongPoll: tt.longPoll, Base: sequence(503), Quota: awsretry.QuotaConfig{Capacity: 1}}
				awsretry.WithoutJitter(tr)
				start := time.Now()
				resp, err := tr.RoundTrip(tt.change(newRequest(t, "POST", nil)))
				if err != nil {
					t.Fatal(err)
				}
				if got := time.Since(start); got != tt.want {
					t.Errorf("took %v, want %v", got, tt.want)
				}
				if outcome, _ := awsretry.Outcome(resp); outcome.Stop != awsretry.StopQuota || outcome.Number != 1 {
					t.Errorf("outcome %+v", outcome)
				}
			})
		})
	}
}

func TestFailFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &awsretry.Transport{
			Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{FailFast: true},
			Backoff: awsretry.BackoffFunc(noPause), Base: sequence(429, 200),
		}
		var told []awsretry.Attempt
		tr.Observe = func(a awsretry.Attempt) { told = append(told, a) }
		resp, err := get(t, tr)
		if err != nil || resp.StatusCode != 429 {
			t.Fatal(resp, err)
		}
		if len(told) != 1 || told[0].Stop != awsretry.StopRateLimit {
			t.Errorf("told %+v", told)
		}
		if got := tokens(t, tr); got != 500 {
			t.Errorf("%d tokens, want 500: the retry was not made", got)
		}
		_, err = get(t, tr)
		var e *awsretry.Error
		if !errors.Is(err, awsretry.ErrRateLimited) || !errors.As(err, &e) || e.Attempts != 0 {
			t.Errorf("got %v", err)
		}
		time.Sleep(5 * time.Second)
		if resp, err := get(t, tr); err != nil || resp.StatusCode != 200 {
			t.Errorf("got %v, %v", resp, err)
		}
	})
}

func TestAdaptivePausesFirstAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &awsretry.Transport{Mode: awsretry.Adaptive, Base: sequence(429, 429, 429, 200), Backoff: awsretry.BackoffFunc(noPause)}
		var waited time.Duration
		tr.Observe = func(a awsretry.Attempt) { waited += a.Waited }
		if _, err := get(t, tr); err != nil {
			t.Fatal(err)
		}
		state, _ := tr.State("service.example")
		if !state.Limited || state.SendRate != 0.5 || state.Tokens != 480 {
			t.Errorf("state %+v", state)
		}
		start := time.Now()
		if resp, err := get(t, tr); err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		if got := time.Since(start); got != 2*time.Second {
			t.Errorf("the first attempt waited %v, want 2s", got)
		}
		if waited != 6*time.Second {
			t.Errorf("observed waits add up to %v, want 6s", waited)
		}
		if got := tokens(t, tr); got != 481 {
			t.Errorf("%d tokens, want 481: the bucket refills in adaptive mode too", got)
		}
	})
}

func TestLegacy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sentAt []time.Time
		tr := &awsretry.Transport{Mode: awsretry.Legacy, Base: roundTripper(func(*http.Request) (*http.Response, error) {
			sentAt = append(sentAt, time.Now())
			if len(sentAt) == 2 {
				resp := answer(429, "")
				resp.Header.Set("Retry-After", "10")
				return resp, nil
			}
			return answer(500, ""), nil
		})}
		resp, err := get(t, tr)
		if err != nil || resp.StatusCode != 500 || len(sentAt) != 4 {
			t.Fatal(resp, err, len(sentAt))
		}
		bounds := [][2]time.Duration{
			{30 * time.Millisecond, 60 * time.Millisecond},
			{11 * time.Second, 12 * time.Second}, // (rand[0, 500 ms) + 500 ms) * 2, and Retry-After
			{120 * time.Millisecond, 240 * time.Millisecond},
		}
		for i, b := range bounds {
			if pause := sentAt[i+1].Sub(sentAt[i]); pause < b[0] || pause > b[1] {
				t.Errorf("pause %d is %v, want %v", i+1, pause, b)
			}
		}
	})
}

func TestBadBases(t *testing.T) {
	both := errors.New("both")
	tests := []struct {
		name string
		base roundTripper
		want string
	}{
		{"neither", func(*http.Request) (*http.Response, error) { return nil, nil }, "neither a response nor an error"},
		{"both", func(*http.Request) (*http.Response, error) { return answer(200, "x"), both }, "both"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, err := get(t, &awsretry.Transport{Base: tt.base, MaxAttempts: 1})
			if resp != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v", resp, err)
			}
		})
	}
	resp, err := get(t, &awsretry.Transport{Base: roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 204}, nil
	})})
	if err != nil || resp.Body == nil {
		t.Errorf("a response without a body: %v, %v", resp, err)
	}
}

func TestNoQueryInErrors(t *testing.T) {
	req := newRequest(t, "GET", nil)
	req.URL.RawQuery = "token=secret"
	client := http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF })}
	tr := &awsretry.Transport{MaxAttempts: 1, Base: roundTripper(func(r *http.Request) (*http.Response, error) { return client.Do(r) })}
	_, err := tr.RoundTrip(req)
	if err == nil || strings.Contains(err.Error(), "secret") || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
}

func TestNoSecretsInErrors(t *testing.T) {
	inner := &url.Error{Op: "Get", URL: "http://me:secret@service.example/path?sig=secret#secret", Err: io.ErrUnexpectedEOF}
	tr := &awsretry.Transport{MaxAttempts: 1, Base: failing(fmt.Errorf("middleware: %w", inner))}
	_, err := get(t, tr) // whose own URL has none of it, as where Prepare signs in the query
	want := `awsretry: gave up after 1 attempt (max_attempts): middleware: Get "http://service.example/path?…": unexpected EOF`
	if err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestNoAllocations(t *testing.T) {
	post := newRequest(t, "POST", strings.NewReader("x"))
	tests := []struct {
		name string
		tr   *awsretry.Transport
		req  *http.Request
	}{
		{"GET", &awsretry.Transport{}, newRequest(t, "GET", nil)},
		{"POST", &awsretry.Transport{}, post},
		{"adaptive", &awsretry.Transport{Mode: awsretry.Adaptive}, newRequest(t, "GET", nil)},
		{"options", &awsretry.Transport{}, newRequest(t, "GET", nil).WithContext(awsretry.WithPartition(t.Context(), "p"))},
		{"observed", &awsretry.Transport{Observe: func(awsretry.Attempt) {}}, newRequest(t, "GET", nil)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.tr.Base = answering(200)
			got := testing.AllocsPerRun(1000, func() {
				if _, err := tt.tr.RoundTrip(tt.req); err != nil {
					t.Fatal(err)
				}
			})
			if got != 0 {
				t.Errorf("%v allocations", got)
			}
		})
	}
}

// A clock reading shows in virtual time only through what depends on it, so the one that is not made is shown by its price:
// the record of an attempt that nobody observes has no Start.
func TestFirstAttemptIsNotTimed(t *testing.T) {
	tr := &awsretry.Transport{Base: sequence(503), MaxAttempts: 1}
	resp, err := get(t, tr)
	if err != nil {
		t.Fatal(err)
	}
	if outcome, ok := awsretry.Outcome(resp); !ok || !outcome.Start.IsZero() {
		t.Errorf("outcome %+v", outcome)
	}
}

func TestCloseIdleConnections(t *testing.T) {
	closed := 0
	tr := &awsretry.Transport{Base: idler{&closed}}
	tr.CloseIdleConnections()
	(&http.Client{Transport: tr}).CloseIdleConnections()
	if closed != 2 {
		t.Errorf("reached Base %d times, want 2", closed)
	}
	(&awsretry.Transport{Base: sequence(200)}).CloseIdleConnections() // has no such method
}

type idler struct{ closed *int }

func (idler) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("unused") }
func (i idler) CloseIdleConnections()                         { *i.closed++ }

func TestBackoffSeesTheRetryAndThePauseBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type call struct {
			N     int
			Class awsretry.Class
			Last  time.Duration
		}
		var got []call
		base := sequence(500, 429, 503, 200)
		tr := &awsretry.Transport{MaxAttempts: 4, RetryAfterSpread: -1, Backoff: awsretry.BackoffFunc(func(n int, class awsretry.Class, last time.Duration) time.Duration {
			got = append(got, call{n, class, last})
			return time.Duration(n-1) * time.Second // the first one is negative
		}), Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			resp, err := base(req)
			if resp.StatusCode == 429 {
				resp.Header.Set("Retry-After", "5")
			}
			return resp, err
		})}
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

func TestFailFastWaitsForTheQuotaToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &awsretry.Transport{
			Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{FailFast: true}, Base: sequence(500, 500, 200),
			Quota: awsretry.QuotaConfig{Capacity: 5, RefillPerSecond: 1, Wait: true}, Backoff: awsretry.BackoffFunc(noPause),
		}
		start := time.Now()
		resp, err := get(t, tr)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("took %v, want 5s", took)
		}
	})
}

func TestFailFastIsEndedByTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &awsretry.Transport{Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{FailFast: true}, Base: sequence(503)}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		awsretry.WithoutJitter(tr)
		resp, err := tr.RoundTrip(newRequest(t, "GET", nil).WithContext(ctx))
		var e *awsretry.Error
		if resp != nil || !errors.Is(err, context.Canceled) || !errors.As(err, &e) || e.Stop != awsretry.StopCanceled || !strings.Contains(err.Error(), "503") {
			t.Errorf("got %v, %v", resp, err)
		}
	})
}

func TestContextEndsWhileTheAnswerComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		sent := 0
		tr := &awsretry.Transport{Base: roundTripper(func(*http.Request) (*http.Response, error) {
			sent++
			cancel()
			return answer(503, "down"), nil
		})}
		resp, err := tr.RoundTrip(newRequest(t, "GET", nil).WithContext(ctx))
		if err != nil || sent != 1 {
			t.Fatalf("sent %d times: %v", sent, err)
		}
		body, err := io.ReadAll(resp.Body)
		if outcome, _ := awsretry.Outcome(resp); string(body) != "down" || err != nil || outcome.Stop != awsretry.StopCanceled {
			t.Errorf("body %q, %v; stop %q", body, err, outcome.Stop)
		}
		if got := tokens(t, tr); got != 500 {
			t.Errorf("%d tokens, want 500", got)
		}
	})
}

func TestPrepareChoosesTheStop(t *testing.T) {
	cause := errors.New("no turn before the deadline")
	for _, test := range []struct {
		name string
		err  error
		stop awsretry.Stop
	}{
		{"a plain error", cause, awsretry.StopPermanent},
		{"an Error", &awsretry.Error{Stop: awsretry.StopDeadline, Err: cause}, awsretry.StopDeadline},
		{"a wrapped Error", fmt.Errorf("throttled: %w", &awsretry.Error{Stop: awsretry.StopDeadline, Err: cause}), awsretry.StopDeadline},
		{"an Error without a Stop", &awsretry.Error{Err: cause}, awsretry.StopPermanent},
	} {
		t.Run(test.name, func(t *testing.T) {
			transport := &awsretry.Transport{
				Base:    baseFunc(func(*http.Request) (*http.Response, error) { t.Error("sent"); return nil, cause }),
				Prepare: func(*http.Request, int) error { return test.err },
			}
			req, err := http.NewRequest(http.MethodGet, "http://service.test/", nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = transport.RoundTrip(req)
			var gaveUp *awsretry.Error
			if !errors.As(err, &gaveUp) || gaveUp.Stop != test.stop || gaveUp.Attempts != 0 || !errors.Is(err, cause) {
				t.Errorf("RoundTrip: %v; want Stop %s after 0 attempts, around %v", err, test.stop, cause)
			}
		})
	}
}
