package delivery

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry"
)

func TestThrottleCountsEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := responding(503, 503, 200)
		policy := parse(t, `{
			"healthyRetryPolicy": {"numRetries": 3, "numNoDelayRetries": 3},
			"throttlePolicy": {"maxReceivesPerSecond": 4}
		}`)
		tr := &Transport{Policy: policy, Base: end}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { send(t, tr, post(t, "http://a.example/", "x")) })
		}
		wg.Wait()
		var want []time.Duration
		for n := range 7 {
			want = append(want, time.Duration(n)*250*time.Millisecond)
		}
		if diff := cmp.Diff(want, end.asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
	})
}

const onePerSecond = `{"throttlePolicy":{"maxReceivesPerSecond":1}}`

// The wait for an attempt ends with the request's context or its deprecated
// Cancel. One that would end after the deadline is refused at once; those that
// wait already count. The error, the dead letter and the observer say the same.
func TestThrottleEndsAWait(t *testing.T) {
	errWhy := errors.New("why")
	deadline := func(d time.Duration) func(*http.Request) (*http.Request, func()) {
		return func(req *http.Request) (*http.Request, func()) {
			ctx, cancel := context.WithTimeout(req.Context(), d)
			return req.WithContext(ctx), cancel
		}
	}
	canceled := func(req *http.Request) (*http.Request, func()) {
		ctx, cancel := context.WithCancelCause(req.Context())
		time.AfterFunc(300*time.Millisecond, func() { cancel(errWhy) })
		return req.WithContext(ctx), func() { cancel(nil) }
	}
	cancelField := func(req *http.Request) (*http.Request, func()) {
		cancel := make(chan struct{})
		time.AfterFunc(300*time.Millisecond, func() { close(cancel) })
		req.Cancel = cancel
		return req, func() {}
	}
	const late, early = 300 * time.Millisecond, time.Duration(0)
	for _, tt := range []struct {
		name  string
		ahead int // deliveries that wait already
		end   func(*http.Request) (*http.Request, func())
		took  time.Duration
		stop  awsretry.Stop
		is    []error
	}{
		{"a deadline before its turn", 0, deadline(time.Second / 2), early, awsretry.StopDeadline,
			[]error{context.DeadlineExceeded}},
		{"a deadline before its turn in line", 1, deadline(1500 * time.Millisecond), early, awsretry.StopDeadline, nil},
		{"canceled", 0, canceled, late, awsretry.StopCanceled, []error{errWhy, context.Canceled}},
		{"Request.Cancel", 0, cancelField, late, awsretry.StopCanceled, nil},
		{"a deadline after its turn in line", 1, deadline(2500 * time.Millisecond), 2 * time.Second, "", nil},
	} {
		for _, buried := range []bool{false, true} {
			run(t, fmt.Sprintf("%s, DeadLetter %v", tt.name, buried), func(t *testing.T) {
				end := responding(200)
				var mu sync.Mutex
				var observed []awsretry.Attempt // guarded by mu
				tr := &Transport{Policy: parse(t, onePerSecond), Base: end}
				tr.Observe = func(a awsretry.Attempt) {
					mu.Lock()
					defer mu.Unlock()
					observed = append(observed, a)
				}
				var dead DeadLetter
				if buried {
					tr.DeadLetter = func(_ context.Context, d DeadLetter) error { dead = d; return nil }
				}
				var line sync.WaitGroup
				for range 1 + tt.ahead { // the first one does not wait
					line.Go(func() { send(t, tr, post(t, "http://a.example/", "x")) })
					synctest.Wait()
				}
				req, cancel := tt.end(post(t, "http://a.example/", "x"))
				defer cancel()
				start := time.Now()
				_, err := tr.RoundTrip(req)
				took := time.Since(start).Round(time.Millisecond)
				line.Wait()
				var gaveUp *awsretry.Error
				if took != tt.took || errors.As(err, &gaveUp) != (tt.stop != "") {
					t.Fatalf("%v after %v, want %q after %v", err, took, tt.stop, tt.took)
				}
				if tt.stop == "" {
					return
				}
				for _, want := range tt.is {
					if !errors.Is(err, want) {
						t.Errorf("got %v, want %v in it", err, want)
					}
				}
				unsent := slices.DeleteFunc(observed, func(a awsretry.Attempt) bool { return a.Number > 0 })
				refused := tt.stop == awsretry.StopDeadline // others are not observed
				if (len(unsent) == 1) != refused || refused && unsent[0].Stop != tt.stop ||
					gaveUp.Stop != tt.stop || len(end.asked) != 1+tt.ahead {
					t.Errorf("%v after %d attempts; observed %+v", err, len(end.asked), unsent)
				}
				if buried && (dead.Reason != string(tt.stop) || dead.Attempts != 0) {
					t.Errorf("the dead letter says %q after %d attempts", dead.Reason, dead.Attempts)
				}
			})
		}
	}
}

// The wait for a retry is one for the throttle, too.
func TestThrottleEndsADelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &Transport{
			Policy: parse(t, `{
				"healthyRetryPolicy": {"numRetries": 3, "numNoDelayRetries": 3},
				"throttlePolicy": {"maxReceivesPerSecond": 1}
			}`),
			Base:   responding(503),
			Jitter: func(d time.Duration) time.Duration { t.Error("a delay of 0 is jittered"); return d },
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		_, err := tr.RoundTrip(post(t, "http://a.example/", "x").WithContext(ctx))
		var gaveUp *awsretry.Error
		if !errors.As(err, &gaveUp) || gaveUp.Stop != awsretry.StopDeadline || gaveUp.Attempts != 2 {
			t.Errorf("got %v", err)
		}
	})
}

// A caller that gives up its place does not delay those after it.
func TestThrottleForgetsThoseWhoGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := responding(200)
		tr := &Transport{Policy: parse(t, onePerSecond), Base: end}
		send(t, tr, post(t, "http://a.example/", "x"))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				_, err := tr.RoundTrip(post(t, "http://a.example/", "x").WithContext(ctx))
				if !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		wg.Go(func() { send(t, tr, post(t, "http://a.example/", "x")) })
		synctest.Wait()
		cancel()
		wg.Wait()
		if want := []time.Duration{0, time.Second}; !slices.Equal(end.asked, want) {
			t.Errorf("asked at %v, want %v", end.asked, want)
		}

	})
}

// At every rate there is a gap between two attempts.
func TestThrottleHasNoBursts(t *testing.T) {
	for _, perSecond := range []int{1, 3, 7, 999, 123_457, 1_000_000_000, math.MaxInt} {
		run(t, strconv.Itoa(perSecond), func(t *testing.T) {
			throttle := newThrottle(&ThrottlePolicy{&perSecond})
			time.Sleep(time.Hour) // which saves up one attempt and no more
			start := time.Now()
			var mu sync.Mutex
			var at []time.Duration
			var wg sync.WaitGroup
			const callers = 50
			for range callers {
				wg.Go(func() {
					if err := throttle.wait(t.Context()); err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					at = append(at, time.Since(start))
				})
			}
			wg.Wait()
			for n, d := range at {
				soonest := time.Duration(math.Floor(float64(n) / float64(perSecond) * 1e9))
				latest := time.Duration(math.Ceil(float64(n) * 1e9 / float64(perSecond)))
				latest += time.Duration(n) // 1 ns each for the timer
				if d < soonest || d > latest {
					t.Fatalf("attempt %d is made after %v, want %v to %v", n+1, d, soonest, latest)
				}
			}
		})
	}
}
