package delivery

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry"
)

func TestThrottleCountsEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := answering(503, 503, 200)
		policy := parse(t, `{"healthyRetryPolicy":{"numRetries":3,"numNoDelayRetries":3},"throttlePolicy":{"maxReceivesPerSecond":4}}`)
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
	policy := parse(t, `{"healthyRetryPolicy":{"numRetries":1,"numNoDelayRetries":1},"throttlePolicy":{"maxReceivesPerSecond":1}}`)
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
		synctest.Test(t, func(t *testing.T) {
			end := answering(200)
			var dead DeadLetter
			tr := &Transport{Policy: policy, Base: end, DeadLetter: func(_ context.Context, d DeadLetter) error { dead = d; return nil }}
			send(t, tr, post(t, "http://a.example/", "x"))
			ctx, cancel := test.context(t.Context())
			defer cancel()
			start := time.Now()
			_, err := tr.RoundTrip(post(t, "http://a.example/", "x").WithContext(ctx))
			for _, want := range test.is {
				if !errors.Is(err, want) {
					t.Errorf("%s: got %v, want %v in it", name, err, want)
				}
			}
			if took := time.Since(start); took != test.took || len(end.asked) != 1 {
				t.Errorf("%s: took %v, %d attempts", name, took, len(end.asked))
			}
			if dead.Reason != test.reason || dead.Attempts != 0 {
				t.Errorf("%s: the dead letter says %q after %d attempts", name, dead.Reason, dead.Attempts)
			}
		})
	}
}

// The error of a delivery that the throttle ended says why, as its dead letter does.
func TestThrottleSaysWhyItStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy, err := Parse([]byte(`{"healthyRetryPolicy": {"numRetries": 3, "numNoDelayRetries": 3}, "throttlePolicy": {"maxReceivesPerSecond": 1}}`))
		if err != nil {
			t.Fatal(err)
		}
		jitter := func(d time.Duration) time.Duration {
			if d == 0 {
				t.Error("a pause of 0 is jittered")
			}
			return d
		}
		for _, buried := range []bool{false, true} {
			reason := ""
			tr := &Transport{Policy: policy, Base: answering(503), Jitter: jitter}
			if buried {
				tr.DeadLetter = func(_ context.Context, dead DeadLetter) error {
					reason = dead.Reason
					return nil
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			_, err := tr.RoundTrip(post(t, "http://a.example/", "x").WithContext(ctx))
			cancel()
			var gaveUp *awsretry.Error
			if !errors.As(err, &gaveUp) || gaveUp.Stop != awsretry.StopDeadline || buried && reason != string(awsretry.StopDeadline) {
				t.Errorf("%v; the dead letter's reason is %q", err, reason)
			}
		}
	})
}
