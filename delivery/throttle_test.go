package delivery

import (
	"context"
	"errors"
	"slices"
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

// The wait for an attempt ends with the request's context or its deprecated
// Cancel. One that would end after the deadline is refused at once; those that
// wait already count. The error, the dead letter and the observer say the same.
func TestThrottleEndsAWait(t *testing.T) {
	const late = 300 * time.Millisecond
	errWhy := errors.New("why")
	for _, tt := range []struct {
		name          string
		deadline      time.Duration // of the request, which is third in line
		cancel, field bool          // it is canceled late, by its context or its Cancel
		took          time.Duration
		stop          awsretry.Stop
		is            []error
	}{
		{name: "a deadline after its turn", deadline: 2500 * time.Millisecond, took: 2 * time.Second},
		{name: "a deadline before its turn", deadline: 1500 * time.Millisecond, stop: awsretry.StopDeadline,
			is: []error{context.DeadlineExceeded}},
		{name: "canceled", cancel: true, took: late, stop: awsretry.StopCanceled, is: []error{errWhy, context.Canceled}},
		{name: "Request.Cancel", field: true, took: late, stop: awsretry.StopCanceled},
	} {
		run(t, tt.name, func(t *testing.T) {
			end := responding(200)
			var unsent []awsretry.Stop
			var dead DeadLetter
			tr := &Transport{Policy: parse(t, `{"throttlePolicy":{"maxReceivesPerSecond":1}}`), Base: end}
			tr.DeadLetter = func(_ context.Context, d DeadLetter) error { dead = d; return nil }
			tr.Observe = func(a awsretry.Attempt) {
				if a.Number == 0 {
					unsent = append(unsent, a.Stop)
				}
			}
			var line sync.WaitGroup
			for range 2 { // the first one does not wait
				line.Go(func() { send(t, tr, post(t, "http://a.example/", "x")) })
				synctest.Wait()
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tt.deadline > 0 {
				limited, stop := context.WithTimeout(ctx, tt.deadline)
				defer stop()
				ctx = limited
			}
			req := post(t, "http://a.example/", "x").WithContext(ctx)
			field := make(chan struct{})
			req.Cancel = field
			time.AfterFunc(late, func() {
				if tt.cancel {
					cancel(errWhy)
				}
				if tt.field {
					close(field)
				}
			})
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
			var observed []awsretry.Stop
			if tt.stop == awsretry.StopDeadline { // others are not observed
				observed = append(observed, tt.stop)
			}
			if gaveUp.Stop != tt.stop || len(end.asked) != 2 || !slices.Equal(unsent, observed) {
				t.Errorf("%v after %d attempts; observed %q", err, len(end.asked), unsent)
			}
			if dead.Reason != string(tt.stop) || dead.Attempts != 0 {
				t.Errorf("the dead letter says %q after %d attempts", dead.Reason, dead.Attempts)
			}
		})
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
