package awsretry_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

// TestRetryAfterSpread: nobody comes back early, and not all in the same second.
func TestRetryAfterSpread(t *testing.T) {
	for _, tt := range []struct {
		name          string
		spread        time.Duration
		asked         string
		from, to      time.Duration
		mode          awsretry.Mode
		alwaysTheSame bool
	}{
		{name: "a quarter", asked: "4", from: 4 * time.Second, to: 5 * time.Second},
		{name: "five seconds at most", asked: "60", from: time.Minute, to: 65 * time.Second},
		{name: "its own", spread: 10 * time.Second, asked: "4", from: 4 * time.Second, to: 14 * time.Second},
		{name: "none", spread: -1, asked: "4", from: 4 * time.Second, to: 4 * time.Second, alwaysTheSame: true},
		{name: "legacy", mode: awsretry.Legacy, asked: "4", from: 4 * time.Second, to: 4 * time.Second, alwaysTheSame: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := make(map[time.Duration]bool)
				for range 20 {
					sends := 0
					tr := &awsretry.Transport{Mode: tt.mode, RetryAfterSpread: tt.spread, Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
						if sends++; sends == 1 {
							return respond(req, 429, http.NoBody, "Retry-After", tt.asked), nil
						}
						return respond(req, 200, http.NoBody), nil
					})}
					start := time.Now()
					if _, err := tr.RoundTrip(request(t, t.Context(), "GET", nil)); err != nil {
						t.Fatal(err)
					}
					took := time.Since(start)
					if took < tt.from || took > tt.to {
						t.Errorf("came back after %v, want %v to %v", took, tt.from, tt.to)
					}
					seen[took] = true
				}
				if (len(seen) == 1) != tt.alwaysTheSame {
					t.Errorf("%d different pauses", len(seen))
				}
			})
		})
	}
}

// TestShareRetryAfter: while a Retry-After is in force nothing is sent but what
// was under way, and then the callers come back one after another.
func TestShareRetryAfter(t *testing.T) {
	for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Adaptive} {
		synctest.Test(t, func(t *testing.T) {
			const callers = 200
			start := time.Now()
			var mu sync.Mutex
			var sent []time.Duration
			var until time.Time
			tr := &awsretry.Transport{Mode: mode, ShareRetryAfter: true, MaxAttempts: 5, RetryAfterSpread: 5 * time.Second}
			tr.RateLimit.MinFillRate, tr.Quota.Capacity = 1000, -1
			tr.Base = baseFunc(func(req *http.Request) (*http.Response, error) {
				mu.Lock()
				sent = append(sent, time.Since(start))
				if until.IsZero() {
					until = time.Now().Add(5 * time.Second)
				}
				left := time.Until(until)
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				if left > 0 {
					return respond(req, 429, http.NoBody, "Retry-After", "5"), nil
				}
				return respond(req, 200, http.NoBody), nil
			})
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					if i >= callers/2 { // first attempts too wait
						time.Sleep(time.Duration(rand.N(4000)+100) * time.Millisecond)
					}
					resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
					if err != nil || resp.StatusCode != 200 {
						t.Errorf("%v, %v", resp, err)
					}
				})
			}
			all.Wait()
			perSecond := make(map[time.Duration]int)
			for _, at := range sent[callers/2:] {
				if at < 5*time.Second {
					t.Errorf("%s: sent after %v", mode, at)
				}
				perSecond[at/time.Second]++
			}
			busiest := 0
			for _, n := range perSecond {
				busiest = max(busiest, n)
			}
			if mean := callers / 5; busiest > mean*3/2 {
				t.Errorf("%s: %d in the busiest second, %d on average: %v", mode, busiest, mean, perSecond)
			}
		})
	}
}

// TestSharedRetryAfterIsBounded: by the context, the deadline, MaxRetryAfter and
// the partition.
func TestSharedRetryAfterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := "30"
		var sends int
		tr := &awsretry.Transport{ShareRetryAfter: true, MaxAttempts: 1, Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			sends++
			return respond(req, 503, http.NoBody, "Retry-After", asked), nil
		})}
		once := func(ctx context.Context) (*http.Response, error) { return tr.RoundTrip(request(t, ctx, "GET", nil)) }
		start := time.Now()
		if _, err := once(t.Context()); err != nil { // closes the gate
			t.Fatal(err)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if resp, err := once(ctx); !errors.Is(err, awsretry.ErrRateLimited) || stopOf(resp, err) != awsretry.StopRateLimit || time.Since(start) != 0 || sends != 1 {
			t.Errorf("a deadline before the end: %v, %v after %v and %d attempts", resp, err, time.Since(start), sends)
		}

		gone, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { leave(errEnough) })
		if resp, err := once(gone); !errors.Is(err, errEnough) || time.Since(start) != time.Second || sends != 1 {
			t.Errorf("canceled: %v, %v after %v and %d attempts", resp, err, time.Since(start), sends)
		}

		if _, err := once(awsretry.WithPartition(t.Context(), "another")); err != nil || time.Since(start) != time.Second || sends != 2 {
			t.Errorf("another partition: %v after %v and %d attempts", err, time.Since(start), sends)
		}

		asked = "3600" // more than MaxRetryAfter is nobody's pause
		if _, err := once(t.Context()); err != nil || time.Since(start) < 30*time.Second || sends != 3 {
			t.Errorf("%v after %v and %d attempts", err, time.Since(start), sends)
		}
		before := time.Now()
		if _, err := once(t.Context()); err != nil || time.Since(before) != 0 || sends != 4 {
			t.Errorf("after an hour was asked for: %v after %v and %d attempts", err, time.Since(before), sends)
		}
	})
}

// TestSharedRetryAfterIsNotShortened: the longest of several holds.
func TestSharedRetryAfterIsNotShortened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []string{"30", "2", "0"}
		tr := &awsretry.Transport{ShareRetryAfter: true, MaxAttempts: 1, Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			asked := answers[0]
			answers = answers[1:]
			if asked == "2" {
				time.Sleep(time.Second) // it was sent before the other was answered
			}
			return respond(req, 503, http.NoBody, "Retry-After", asked), nil
		})}
		start := time.Now()
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { tr.RoundTrip(request(t, t.Context(), "GET", nil)) })
		}
		both.Wait()
		if _, err := tr.RoundTrip(request(t, t.Context(), "GET", nil)); err != nil || time.Since(start) < 30*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// TestSharedRetryAfterMeetsARetry: a retry that another's Retry-After delays
// beyond its deadline returns the response that it has.
func TestSharedRetryAfterMeetsARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &awsretry.Transport{ShareRetryAfter: true, Backoff: pauseOf(2 * time.Second), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			if req.Method == "POST" {
				return respond(req, 503, http.NoBody, "Retry-After", "30"), nil
			}
			return respond(req, 503, track(strings.NewReader("busy"))), nil
		})}
		time.AfterFunc(time.Second, func() {
			tr.RoundTrip(request(t, awsretry.WithoutRetry(t.Context()), "POST", nil))
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		resp, err := tr.RoundTrip(request(t, ctx, "GET", nil))
		if took := time.Since(start); err != nil || stopOf(resp, err) != awsretry.StopDeadline || took != 2*time.Second || whole(t, resp) != "busy" {
			t.Errorf("%v, %v after %v", resp, err, took)
		}
	})
}

// TestRetryAfterHook: a service's own way to ask for a pause.
func TestRetryAfterHook(t *testing.T) {
	body := strings.Repeat(" ", 100) + `{"retry": 7}` + strings.Repeat(" ", 100_000)
	for _, tt := range []struct {
		name  string
		hook  func(*http.Response, []byte) (time.Duration, bool)
		limit time.Duration // MaxRetryAfter
		want  time.Duration
		stop  awsretry.Stop
	}{
		{name: "asks", hook: func(*http.Response, []byte) (time.Duration, bool) { return 7 * time.Second, true }, want: 7 * time.Second},
		{name: "leaves it to the header", hook: func(*http.Response, []byte) (time.Duration, bool) { return time.Hour, false }, want: 3 * time.Second},
		{name: "asks for none", hook: func(*http.Response, []byte) (time.Duration, bool) { return 0, true }, want: time.Second},
		{name: "a negative pause is none", hook: func(*http.Response, []byte) (time.Duration, bool) { return -time.Hour, true }, want: time.Second},
		{name: "too long", hook: func(*http.Response, []byte) (time.Duration, bool) { return time.Hour, true }, stop: awsretry.StopRetryAfter},
		{name: "ignored", limit: -1, hook: func(*http.Response, []byte) (time.Duration, bool) { return time.Hour, true }, want: time.Second},
		{name: "by the body", hook: func(resp *http.Response, body []byte) (time.Duration, bool) {
			if len(body) != peekLimit || resp.StatusCode != 429 {
				t.Errorf("%d bytes of a %d", len(body), resp.StatusCode)
			}
			return 7 * time.Second, strings.Contains(string(body), `"retry": 7`)
		}, want: 7 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sends := 0
				tr := &awsretry.Transport{RetryAfter: tt.hook, RetryAfterSpread: -1, MaxRetryAfter: tt.limit, Backoff: pauseOf(time.Second)}
				tr.Base = baseFunc(func(req *http.Request) (*http.Response, error) {
					if sends++; sends > 1 {
						return respond(req, 200, http.NoBody), nil
					}
					// A code in the header, and a type that holds none: neither keeps the body from the hook.
					return respond(req, 429, track(strings.NewReader(body)), "Retry-After", "3", "X-Amzn-ErrorType", "SlowDown", "Content-Type", "image/png"), nil
				})
				start := time.Now()
				resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
				if err != nil {
					t.Fatal(err)
				}
				if stop := stopOf(resp, nil); tt.stop != "" && stop != tt.stop || time.Since(start) != tt.want {
					t.Errorf("stopped by %q after %v, want %q after %v", stop, time.Since(start), tt.stop, tt.want)
				}
				if got := whole(t, resp); tt.stop != "" && got != body {
					t.Errorf("%d of %d bytes come back", len(got), len(body))
				}
			})
		})
	}
}

// TestDrainIsPartOfThePause: what is left of a throttled response is read while
// the pause passes, and neither the deadline nor the caller's leaving is missed.
func TestDrainIsPartOfThePause(t *testing.T) {
	for _, tt := range []struct {
		name   string
		pause  time.Duration
		within func(t *testing.T, req *http.Request) *http.Request
		want   time.Duration
		stop   awsretry.Stop
	}{
		{name: "a long pause", pause: 5 * time.Second, want: 5 * time.Second, stop: awsretry.StopSuccess},
		{name: "no pause", want: 100 * time.Millisecond, stop: awsretry.StopSuccess},
		{name: "a deadline soon", want: 25 * time.Millisecond, stop: awsretry.StopSuccess, within: func(t *testing.T, req *http.Request) *http.Request {
			ctx, cancel := context.WithTimeout(req.Context(), 50*time.Millisecond)
			t.Cleanup(cancel)
			return req.WithContext(ctx)
		}},
		{name: "Request.Cancel", pause: 5 * time.Second, want: time.Second, stop: awsretry.StopCanceled, within: func(_ *testing.T, req *http.Request) *http.Request {
			cancel := make(chan struct{})
			time.AfterFunc(time.Second, func() { close(cancel) })
			req.Cancel = cancel //lint:ignore SA1019 it is what is tested
			return req
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				source := track(readFunc(func(p []byte) (int, error) { <-end; return 0, io.EOF }))
				sends := 0
				tr := &awsretry.Transport{Backoff: pauseOf(tt.pause), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
					if sends++; sends > 1 {
						return respond(req, 200, http.NoBody), nil
					}
					return respond(req, 429, source, "X-Amzn-ErrorType", "SlowDown"), nil
				})}
				req := request(t, t.Context(), "GET", nil)
				if tt.within != nil {
					req = tt.within(t, req)
				}
				start := time.Now()
				resp, err := tr.RoundTrip(req)
				if took := time.Since(start); took != tt.want || stopOf(resp, err) != tt.stop {
					t.Errorf("%v, %v after %v, want %v", resp, err, took, tt.want)
				}
				close(end)
				synctest.Wait()
				if source.closes.Load() != 1 || source.closedReading.Load() > 0 {
					t.Errorf("closed %d times, %d times while it was read", source.closes.Load(), source.closedReading.Load())
				}
			})
		})
	}
}

// TestRetryAfterIsAskedForOnce: the hook sees each retryable response, and no
// other.
func TestRetryAfterIsAskedForOnce(t *testing.T) {
	var asked []int
	tr := &awsretry.Transport{Backoff: pauseOf(0), Base: answersWith(503, 429, 404)}
	tr.RetryAfter = func(resp *http.Response, _ []byte) (time.Duration, bool) {
		asked = append(asked, resp.StatusCode)
		return 0, true
	}
	if _, err := tr.RoundTrip(request(t, t.Context(), "GET", nil)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(asked, []int{503, 429}) {
		t.Errorf("asked about %v", asked)
	}
}

// TestSharedRetryAfterHoldsTheLine: nor do those go on who stand in the rate
// limiter's line when the service asks for a pause.
func TestSharedRetryAfterHoldsTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked time.Time
		sends := 0
		tr := &awsretry.Transport{Mode: awsretry.Adaptive, ShareRetryAfter: true, MaxAttempts: 1, RetryAfterSpread: -1}
		tr.RateLimit.MinFillRate = 1
		tr.Base = baseFunc(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			switch sends++; sends {
			case 1:
				return respond(req, 429, http.NoBody), nil // the limiter limits from here on
			case 2:
				asked = time.Now()
				return respond(req, 429, http.NoBody, "Retry-After", "5"), nil
			}
			if since := time.Since(asked); since < 5*time.Second {
				t.Errorf("attempt %d is sent %v after a Retry-After of 5 s", sends, since)
			}
			return respond(req, 200, http.NoBody), nil
		})
		once := func() {
			if _, err := tr.RoundTrip(request(t, t.Context(), "GET", nil)); err != nil {
				t.Error(err)
			}
		}
		once()
		var all sync.WaitGroup
		for range 6 {
			all.Go(once)
		}
		all.Wait()
		if sends != 7 {
			t.Errorf("%d attempts", sends)
		}
	})
}

// TestSharedRetryAfterBeyondTheDeadline: a pause is not begun where another's
// Retry-After is known to last longer than the deadline.
func TestSharedRetryAfterBeyondTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &awsretry.Transport{ShareRetryAfter: true, Backoff: pauseOf(2 * time.Second)}
		tr.Base = baseFunc(func(req *http.Request) (*http.Response, error) {
			if req.Method == "POST" {
				return respond(req, 503, http.NoBody, "Retry-After", "30"), nil
			}
			time.Sleep(time.Second)
			return respond(req, 503, track(strings.NewReader("busy"))), nil
		})
		time.AfterFunc(time.Second/2, func() {
			tr.RoundTrip(request(t, awsretry.WithoutRetry(t.Context()), "POST", nil))
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		resp, err := tr.RoundTrip(request(t, ctx, "GET", nil))
		if took := time.Since(start); err != nil || stopOf(resp, err) != awsretry.StopDeadline || took != time.Second || whole(t, resp) != "busy" {
			t.Errorf("%v, %v after %v", resp, err, took)
		}
	})
}

// TestDrainBehindAReadIsShort: the time that a Read of the caller's body took
// is not time for the rest of the response.
func TestDrainBehindAReadIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		defer close(end)
		sends := 0
		tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			if sends++; sends > 1 {
				if got, err := useUp(req); got != "one" || err != nil {
					t.Errorf("%q, %v", got, err)
				}
				return respond(req, 200, http.NoBody), nil
			}
			go func() { io.Copy(io.Discard, req.Body); req.Body.Close() }()
			time.Sleep(100 * time.Millisecond)
			rest := readFunc(func([]byte) (int, error) { <-end; return 0, io.EOF })
			return respond(req, 429, io.NopCloser(rest), "X-Amzn-ErrorType", "SlowDown"), nil
		})}
		start := time.Now()
		resp, err := tr.RoundTrip(request(t, t.Context(), "PUT", &slowly{[]string{"one"}, time.Second}))
		// Two Reads of a second, and the drain's tenth of one.
		if took := time.Since(start); err != nil || resp.StatusCode != 200 || took != 2100*time.Millisecond {
			t.Errorf("%v, %v after %v", resp, err, took)
		}
	})
}
