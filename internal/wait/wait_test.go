package wait

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// Request.Cancel ends the call and its waits, also in a hook, and a call whose
// deadline has passed timed out, whichever was noticed first.
func TestRequestCancel(t *testing.T) {
	for _, timed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, want := t.Context(), context.Canceled
			if timed {
				within, end := context.WithTimeout(ctx, time.Second)
				defer end()
				ctx, want = within, context.DeadlineExceeded
			}
			cancel := make(chan struct{})
			req := (&http.Request{Cancel: cancel}).WithContext(ctx)
			c := Of(req)
			defer c.Release()
			type key struct{}
			hook := context.WithValue(c.ForHook(ctx), key{}, "inner")
			if c.Ended() != nil || Canceled(req) || !c.Sleep(time.Second/2) || !c.Outlives(time.Second/2) == timed {
				t.Fatal("it ended before")
			}
			time.AfterFunc(time.Second/2, func() { close(cancel) })
			slept := c.Sleep(time.Minute)
			synctest.Wait()
			if slept || !Canceled(req) || c.Ended() != want || c.TimedOut(c.Ended()) != timed {
				t.Errorf("timed %v: %v", timed, c.Ended())
			}
			if c.Waiting().Err() == nil || InHook(hook).Err() == nil {
				t.Errorf("timed %v: a wait did not end", timed)
			}
		})
	}
	if ctx := t.Context(); InHook(ctx) != ctx {
		t.Error("a context without another one for waits is not its own")
	}
}
