package contract_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// A delay that would not end before the deadline is not begun: the outcome is
// returned at once.
func TestDelayThatWouldPassTheDeadline(t *testing.T) {
	for name, failure := range map[string]outcome{
		"503": busy, "Retry-After": responds(429, "Retry-After", "10"), "error": fails(errReset),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sends := 0
				tr := &transport{Backoff: contract.Delay(10 * time.Second), RetryAfterSpread: -1, MaxAttempts: 9}
				tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
					sends++
					return failure(req, httpfake.NewBody(strings.NewReader("busy")))
				})
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				start := time.Now()
				resp, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
				if took := time.Since(start); took != 10*time.Second || sends != 2 {
					t.Errorf("%v, %v after %v and %d attempts", resp, err, took, sends)
				}
				if stop := contract.StopOf(resp, err); stop != awsretry.StopDeadline {
					t.Errorf("stopped by %q", stop)
				}
				if resp != nil && httpfake.ReadAll(t, resp) != "busy" {
					t.Error("the response is not whole")
				}
				if err != nil && (!errors.Is(err, errReset) || errors.Is(err, context.DeadlineExceeded)) {
					t.Error(err)
				}
			})
		})
	}
}

func TestAttemptsBeforeTheDeadline(t *testing.T) {
	for _, tt := range []struct {
		deadline time.Duration // with delays of 1 s and 2 s
		attempts int
		took     time.Duration
		stop     awsretry.Stop
	}{
		{500 * time.Millisecond, 1, 0, awsretry.StopDeadline},
		{time.Second, 1, 0, awsretry.StopDeadline}, // nothing could be sent after the delay
		{1001 * time.Millisecond, 2, time.Second, awsretry.StopDeadline},
		{3 * time.Second, 2, time.Second, awsretry.StopDeadline},
		{4 * time.Second, 3, 3 * time.Second, awsretry.StopMaxAttempts},
	} {
		t.Run(tt.deadline.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &transport{Base: httpfake.Statuses(503), Backoff: noJitter}
				ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
				defer cancel()
				start := time.Now()
				resp, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
				if err != nil {
					t.Fatal(err)
				}
				last, _ := awsretry.Outcome(resp)
				if took := time.Since(start); last.Number != tt.attempts || last.Stop != tt.stop || took != tt.took {
					t.Errorf("stopped by %q after %d attempts and %v", last.Stop, last.Number, took)
				}
			})
		})
	}
}

// The error of a deadline in an attempt names the failure before it.
func TestDeadlineNamesTheFailureBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sends := 0
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			if sends++; sends == 1 {
				return httpfake.Response(req, 503, http.NoBody), nil
			}
			return hangs(req, nil)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "503") {
			t.Error(err)
		}
	})
}

// If the retry tokens and the delay would take until after the deadline, the
// response is returned at once and nothing is drawn.
func TestQuotaWaitThatWouldPassTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{
			Base: httpfake.Statuses(503), MaxAttempts: 10, Backoff: contract.Delay(4 * time.Second),
			Quota: awsretry.QuotaConfig{Capacity: 5, RefillPerSecond: 0.5, Wait: true},
		}
		var stops []awsretry.Stop
		tr.Observe = func(a awsretry.Attempt) { stops = append(stops, a.Stop) }
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		start := time.Now()
		resp, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
		if err != nil || resp.StatusCode != 503 {
			t.Fatal(resp, err)
		}
		// After 4 s there are 2 tokens. The other 3 take 6 s, and then the
		// delay 4 s.
		if took := time.Since(start); took != 4*time.Second || len(stops) != 2 || stops[1] != awsretry.StopDeadline {
			t.Errorf("stopped by %q after %v", stops, took)
		}
		if got := contract.TokensOf(t, tr); got != 2 {
			t.Errorf("%d tokens, want 2", got)
		}
	})
}

// The wait for retry tokens includes the line in front. A wait that would be
// too long is not begun and takes no place in line.
func TestQuotaLineThatWouldPassTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{
			Base: httpfake.Statuses(503), MaxAttempts: 2, Backoff: contract.Delay(time.Second),
			Quota: awsretry.QuotaConfig{Capacity: 5, RefillPerSecond: 0.5, Wait: true},
		}
		stops := make(chan awsretry.Stop, 3)
		start := time.Now()
		for range 3 { // the first finds 5 tokens, the second waits 10 s for 5 more, the third would wait 20 s
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 20500*time.Millisecond)
				defer cancel()
				resp, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
				stop := contract.StopOf(resp, err)
				if took := time.Since(start); err != nil || stop == awsretry.StopDeadline && took != 0 {
					t.Errorf("%v; stopped by %q after %v", err, stop, took)
				}
				stops <- stop
			}()
		}
		got := map[awsretry.Stop]int{}
		for range 3 {
			got[<-stops]++
		}
		if got[awsretry.StopMaxAttempts] != 2 || got[awsretry.StopDeadline] != 1 {
			t.Errorf("stopped by %v", got)
		}
		if took, left := time.Since(start), contract.TokensOf(t, tr); took != 11*time.Second || left != 0 {
			t.Errorf("%d tokens after %v, want 0 after 11s", left, took)
		}
	})
}

// A hastyContext has a deadline that comes nearer after the first look at it.
type hastyContext struct {
	context.Context
	looks *int
}

func (c hastyContext) Deadline() (time.Time, bool) {
	if *c.looks++; *c.looks == 1 {
		return time.Now().Add(time.Hour), true
	}
	return time.Now().Add(time.Second), true
}

// If others join the line between the decision to retry and the wait, the
// response is still there to be returned.
func TestQuotaLineThatGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		tr := &transport{
			Quota: awsretry.QuotaConfig{Capacity: 5, RefillPerSecond: 1, Wait: true}, Base: httpfake.Statuses(503),
			Backoff: awsretry.BackoffFunc(
				func(int, awsretry.Class, time.Duration) time.Duration { looks = 0; return 0 }),
		}
		start := time.Now()
		resp, err := tr.RoundTrip(httpfake.Request(t, hastyContext{t.Context(), &looks}, "GET", nil))
		if err != nil {
			t.Fatal(err)
		}
		// The first retry draws all the tokens. The second would have to wait
		// for 5 s.
		last, _ := awsretry.Outcome(resp)
		if took := time.Since(start); last.Stop != awsretry.StopDeadline || last.Number != 2 || took != 0 {
			t.Errorf("stopped by %q after %d attempts and %v", last.Stop, last.Number, took)
		}
	})
}
