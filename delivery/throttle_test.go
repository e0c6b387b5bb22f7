package delivery

import (
	"context"
	"errors"
	"math"
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

func TestThrottleEndsWithTheContext(t *testing.T) {
	policy := parse(t, `{"throttlePolicy":{"maxReceivesPerSecond":1}}`)
	why := errors.New("why")
	for name, test := range map[string]struct {
		context func(context.Context) (context.Context, context.CancelFunc)
		took    time.Duration
		reason  string
		is      []error
	}{
		"a deadline before its turn": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 500*time.Millisecond)
		}, 0, "deadline", []error{context.DeadlineExceeded}},
		"canceled before its turn": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(300*time.Millisecond, func() { cancel(why) })
			return ctx, func() { cancel(nil) }
		}, 300 * time.Millisecond, "canceled", []error{why, context.Canceled}},
	} {
		run(t, name, func(t *testing.T) {
			end := responding(200)
			var dead DeadLetter
			tr := &Transport{Policy: policy, Base: end}
			tr.DeadLetter = func(_ context.Context, d DeadLetter) error { dead = d; return nil }
			send(t, tr, post(t, "http://a.example/", "x"))
			ctx, cancel := test.context(t.Context())
			defer cancel()
			start := time.Now()
			_, err := tr.RoundTrip(post(t, "http://a.example/", "x").WithContext(ctx))
			for _, want := range test.is {
				if !errors.Is(err, want) {
					t.Errorf("got %v, want %v in it", err, want)
				}
			}
			if took := time.Since(start); took != test.took || len(end.asked) != 1 {
				t.Errorf("took %v, %d attempts", took, len(end.asked))
			}
			if dead.Reason != test.reason || dead.Attempts != 0 {
				t.Errorf("the dead letter says %q after %d attempts", dead.Reason, dead.Attempts)
			}
		})
	}
}

// The error of a delivery that the throttle ended has the Stop that its dead
// letter has.
func TestThrottleSaysWhyItStopped(t *testing.T) {
	for name, buried := range map[string]bool{"without DeadLetter": false, "with DeadLetter": true} {
		run(t, name, func(t *testing.T) {
			reason := ""
			tr := &Transport{
				Policy: parse(t, `{
					"healthyRetryPolicy": {"numRetries": 3, "numNoDelayRetries": 3},
					"throttlePolicy": {"maxReceivesPerSecond": 1}
				}`),
				Base:   responding(503),
				Jitter: func(d time.Duration) time.Duration { t.Error("a delay of 0 is jittered"); return d },
			}
			if buried {
				tr.DeadLetter = func(_ context.Context, dead DeadLetter) error {
					reason = dead.Reason
					return nil
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			_, err := tr.RoundTrip(post(t, "http://a.example/", "x").WithContext(ctx))
			var gaveUp *awsretry.Error
			if !errors.As(err, &gaveUp) || gaveUp.Stop != awsretry.StopDeadline || gaveUp.Attempts != 2 {
				t.Errorf("got %v", err)
			}
			if buried != (reason == "deadline") {
				t.Errorf("the dead letter's reason is %q", reason)
			}
		})
	}
}

// A caller that gives up its place does not delay those after it.
func TestThrottleForgetsThoseWhoGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := responding(200)
		tr := &Transport{Policy: parse(t, `{"throttlePolicy":{"maxReceivesPerSecond":1}}`), Base: end}
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

// A wait that would end after the deadline is refused at once. Those that wait
// already count.
func TestThrottleRefusesWhatComesTooLate(t *testing.T) {
	for _, tt := range []struct {
		name string
		left time.Duration
		ok   bool
		took time.Duration
	}{
		{"too late", 1500 * time.Millisecond, false, 0},
		{"in time", 2500 * time.Millisecond, true, 2 * time.Second},
	} {
		run(t, tt.name, func(t *testing.T) {
			tr := &Transport{Policy: parse(t, `{"throttlePolicy":{"maxReceivesPerSecond":1}}`), Base: responding(200)}
			send(t, tr, post(t, "http://a.example/", "x"))
			var wg sync.WaitGroup
			wg.Go(func() { send(t, tr, post(t, "http://a.example/", "x")) })
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), tt.left)
			defer cancel()
			start := time.Now()
			_, err := tr.RoundTrip(post(t, "http://a.example/", "x").WithContext(ctx))
			if took := time.Since(start).Round(time.Millisecond); (err == nil) != tt.ok || took != tt.took {
				t.Errorf("got %v after %v", err, took)
			}
			wg.Wait()
		})
	}
}

// A delivery that is refused before its first attempt is observed once.
func TestThrottledDeliveryIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var observed []awsretry.Attempt
		tr := &Transport{Policy: parse(t, `{"throttlePolicy":{"maxReceivesPerSecond":1}}`), Base: responding(200)}
		tr.Observe = func(a awsretry.Attempt) { observed = append(observed, a) }
		send(t, tr, post(t, "http://a.example/", "x"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, err := tr.RoundTrip(post(t, "http://a.example/", "x").WithContext(ctx))
		if err == nil || len(observed) != 2 || observed[1].Number != 0 || observed[1].Stop == "" {
			t.Errorf("%v; observed %+v", err, observed)
		}
	})
}

// The deprecated Request.Cancel ends the wait too.
func TestThrottleEndsWithCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := responding(200)
		tr := &Transport{Policy: parse(t, `{"throttlePolicy":{"maxReceivesPerSecond":1}}`), Base: end}
		send(t, tr, post(t, "http://a.example/", "x"))
		cancel := make(chan struct{})
		time.AfterFunc(300*time.Millisecond, func() { close(cancel) })
		req := post(t, "http://a.example/", "x")
		req.Cancel = cancel
		start := time.Now()
		_, err := tr.RoundTrip(req)
		var gaveUp *awsretry.Error
		if !errors.As(err, &gaveUp) || gaveUp.Stop != awsretry.StopCanceled {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took != 300*time.Millisecond || len(end.asked) != 1 {
			t.Errorf("took %v, %d attempts", took, len(end.asked))
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
