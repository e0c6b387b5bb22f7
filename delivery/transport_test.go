package delivery

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// Neither the response's Retry-After nor the header of an outer loop changes
// the policy's schedule.
func TestDeliveriesFollowThePolicy(t *testing.T) {
	const most = 5000 // attempts that are made, so that the long policy does not take long
	for name, policy := range map[string]*Policy{
		"nil": nil,
		"all phases": testPolicy(t, `"minDelayTarget":2,"maxDelayTarget":30,"numRetries":9,"numNoDelayRetries":1,`+
			`"numMinDelayRetries":2,"numMaxDelayRetries":2,"backoffFunction":"geometric"`),
		"no retries":  testPolicy(t, `"numRetries":0`),
		"AWS-managed": AWSManaged(),
	} {
		run(t, name, func(t *testing.T) {
			want, at := []time.Duration{0}, time.Duration(0)
			for d := range policy.Delays() {
				at += d
				want = append(want, at)
			}
			end, last := responding(503), 503
			end.header = http.Header{"Retry-After": {"3600"}}
			tr := &Transport{Policy: policy, Base: end, Jitter: awsretry.NoJitter}
			if got := tr.newInner().MaxAttempts; got != len(want) {
				t.Errorf("%d attempts are allowed, want %d", got, len(want))
			}
			if len(want) > most {
				end.statuses, last = append(slices.Repeat([]int{503}, most-1), 200), 200
				want = want[:most]
			}
			req := post(t, "http://a.example/", "hello")
			req.Header.Set("Amz-Sdk-Request", "attempt=1; max=3")
			if status, err := send(t, tr, req); status != last || err != nil {
				t.Errorf("got %d, %v; want %d", status, err, last)
			}
			if !slices.Equal(want, end.asked) {
				t.Errorf("asked %d times, %v…; want %d, %v…",
					len(end.asked), end.asked[:min(len(end.asked), 20)], len(want), want[:min(len(want), 20)])
			}
			if got := end.got[len(end.got)-1]; got.Body != "hello" {
				t.Errorf("the last attempt sent %q", got.Body)
			}
		})
	}
}

func TestAttemptsTimeOut(t *testing.T) {
	for _, test := range []struct {
		name      string
		set, each time.Duration
	}{
		{"by default", 0, 15 * time.Second},
		{"as set", time.Second, time.Second},
	} {
		run(t, test.name, func(t *testing.T) {
			start := time.Now()
			hangs := httpfake.Base(func(req *http.Request) (*http.Response, error) {
				<-req.Context().Done()
				return nil, context.Cause(req.Context())
			})
			tr := &Transport{Jitter: awsretry.NoJitter, AttemptTimeout: test.set, Base: hangs}
			_, err := tr.RoundTrip(post(t, "http://a.example/", "x"))
			var e *awsretry.Error
			if !errors.As(err, &e) || !e.Timeout() || e.Attempts != 4 || e.Stop != awsretry.StopMaxAttempts {
				t.Errorf("got %v", err)
			}
			if took := time.Since(start); took != 4*test.each+60*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestContentTypeSent(t *testing.T) {
	named := &Policy{RequestPolicy: &RequestPolicy{HeaderContentType: "application/json"}}
	for _, test := range []struct {
		name   string
		policy *Policy
		header http.Header
		want   string
	}{
		{"none anywhere", nil, nil, "text/plain; charset=UTF-8"},
		{"an empty block", &Policy{RequestPolicy: &RequestPolicy{}}, http.Header{}, "text/plain; charset=UTF-8"},
		{"the request's", nil, http.Header{"Content-Type": {"image/png"}}, "image/png"},
		{"the policy's before the request's", named, http.Header{"Content-Type": {"image/png", "text/css"}},
			"application/json"},
	} {
		run(t, test.name, func(t *testing.T) {
			end := responding(503, 404)
			var dead DeadLetter
			tr := &Transport{Policy: test.policy, Base: end}
			tr.DeadLetter = func(_ context.Context, d DeadLetter) error { dead = d; return nil }
			req := post(t, "http://a.example/", "x")
			req.Header = test.header
			before := test.header.Clone()
			send(t, tr, req)
			if diff := cmp.Diff(before, req.Header); diff != "" {
				t.Errorf("the caller's header changed:\n%s", diff)
			}
			headers := []http.Header{dead.Request.Header}
			for _, got := range end.got {
				headers = append(headers, got.Header)
			}
			for _, header := range headers {
				if diff := cmp.Diff([]string{test.want}, header["Content-Type"]); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
			if len(headers) != 3 {
				t.Errorf("%d attempts", len(end.got))
			}
		})
	}
}

func TestJitter(t *testing.T) {
	policy := testPolicy(t, `"minDelayTarget":10,"maxDelayTarget":10,"numRetries":100`)
	delays := func(jitter awsretry.Jitter) (delays []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			end := responding(503)
			send(t, &Transport{Policy: policy, Base: end, Jitter: jitter}, post(t, "http://a.example/", "x"))
			for n := 1; n < len(end.asked); n++ {
				delays = append(delays, end.asked[n]-end.asked[n-1])
			}
		})
		return delays
	}
	spread := delays(nil)
	lo, hi := slices.Min(spread), slices.Max(spread)
	if lo < 10*time.Second || lo > 10300*time.Millisecond || hi < 10700*time.Millisecond || hi > 11*time.Second {
		t.Errorf("the default's delays are %v to %v, want 10 s, which is minDelayTarget, to 11 s", lo, hi)
	}
	for factor, want := range map[time.Duration]time.Duration{-1: 0, 5: 10 * time.Second} {
		got := delays(func(d time.Duration) time.Duration { return factor * d })
		if len(got) != 100 || slices.Min(got) != want || slices.Max(got) != want {
			t.Errorf("a jitter of %d times the delay: got %v, want %v", factor, got, want)
		}
	}
}

// Failures of many deliveries leave the next one its retries.
func TestNoQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := responding(0)
		tr := &Transport{Base: end}
		for range 300 {
			tr.RoundTrip(post(t, "http://a.example/", "x"))
		}
		if len(end.asked) != 300*4 {
			t.Errorf("%d attempts, want 1200", len(end.asked))
		}
	})
}

func TestValidateTransport(t *testing.T) {
	retries := func(n int) *Policy { return &Policy{HealthyRetryPolicy: &RetryPolicy{NumRetries: &n}} }
	raw := &Policy{RequestPolicy: &RequestPolicy{HeaderContentType: "text/css"}}
	for _, tt := range []struct {
		name string
		tr   *Transport
		want []string // in the error; none: there is no error
	}{
		{"content type of raw delivery", &Transport{Policy: raw}, nil},
		{"policy", &Transport{Policy: retries(101)},
			[]string{"Policy.healthyRetryPolicy.numRetries is 101", "0 to 100"}},
		{"time-out", &Transport{AttemptTimeout: -1}, []string{"AttemptTimeout is -1ns", "15s"}},
		{"retries twice", &Transport{Base: &awsretry.Transport{}}, []string{"Base", "awsretry.Transport"}},
		{"a nil Base", &Transport{Base: (*http.Transport)(nil)}, []string{"Base", "nil *http.Transport"}},
		{"two faults", &Transport{AttemptTimeout: -1, Base: &Transport{}},
			[]string{"AttemptTimeout", "Base", "delivery.Transport"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.tr.Validate()
			if (err == nil) != (tt.want == nil) {
				t.Fatalf("got %v", err)
			}
			if err == nil {
				return
			}
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "delivery: Transport.") || strings.Contains(line, "awsretry: ") {
					t.Errorf("got %q, want the package and the field in front", line)
				}
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
			body := httpfake.NewBody(strings.NewReader("x"))
			req := post(t, "http://a.example/", "x")
			req.Body = body
			resp, same := tt.tr.RoundTrip(req)
			if resp != nil || same == nil || same.Error() != err.Error() || body.Closes() != 1 {
				t.Errorf("RoundTrip: got %v, %v; the body was closed %d times", resp, same, body.Closes())
			}
		})
	}
}

// An idler counts the calls of CloseIdleConnections.
type idler struct {
	http.RoundTripper
	closed int
}

func (i *idler) CloseIdleConnections() { i.closed++ }

// CloseIdleConnections reaches Base before and after the first request, to which
// it leaves it to fix the fields.
func TestCloseIdleConnections(t *testing.T) {
	for _, tr := range []*Transport{{AttemptTimeout: -1}, {Base: (*http.Transport)(nil)}, {}} {
		tr.CloseIdleConnections() // must not panic
	}
	first, end := &idler{}, responding(200)
	second := &idler{RoundTripper: end}
	tr := &Transport{Policy: testPolicy(t, `"numRetries":0`), Base: first}
	tr.CloseIdleConnections()
	tr.Base = second
	status, err := send(t, tr, post(t, "http://127.0.0.1:1/", "x"))
	if status != 200 || err != nil || len(end.asked) != 1 {
		t.Errorf("got %d, %v; Base was asked %d times", status, err, len(end.asked))
	}
	if tr.CloseIdleConnections(); first.closed != 1 || second.closed != 1 {
		t.Errorf("reached Base %d times before a request, and %d times after it", first.closed, second.closed)
	}
}
