package tokens

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Events count for a minute and at most five seconds more.
func TestCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounter()
		for second := range 600 {
			if got, least := c.count(), int64(min(second, 60)); got < least || got > least+5 {
				t.Fatalf("%d events after %d s", got, second)
			}
			c.add()
			time.Sleep(time.Second)
		}
		if time.Sleep(59 * time.Second); c.count() == 0 {
			t.Error("forgotten before a minute has passed")
		}
		if time.Sleep(6 * time.Second); c.count() != 0 {
			t.Errorf("%d events after a minute without any", c.count())
		}
		time.Sleep(1000 * time.Hour)
		if c.add(); c.count() != 1 {
			t.Errorf("%d events after a pause", c.count())
		}
	})
}

// No event is lost where many are counted at a time.
func TestCounterConcurrently(t *testing.T) {
	c := newCounter()
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 10_000 {
				c.add()
			}
		})
	}
	if wait.Wait(); c.count() != 80_000 {
		t.Errorf("%d events", c.count())
	}
}
