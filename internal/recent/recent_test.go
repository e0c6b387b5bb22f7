package recent_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/recent"
)

// Events count for a minute and at most five seconds more.
func TestCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := recent.New()
		for second := range 600 {
			if got, least := c.Count(), int64(min(second, 60)); got < least || got > least+5 {
				t.Fatalf("%d events after %d s", got, second)
			}
			c.Add()
			time.Sleep(time.Second)
		}
		if time.Sleep(59 * time.Second); c.Count() == 0 {
			t.Error("forgotten before a minute has passed")
		}
		if time.Sleep(6 * time.Second); c.Count() != 0 {
			t.Errorf("%d events after a minute without any", c.Count())
		}
		time.Sleep(1000 * time.Hour)
		if c.Add(); c.Count() != 1 {
			t.Errorf("%d events after a pause", c.Count())
		}
	})
}

// No event is lost where many are counted at a time.
func TestConcurrentAdd(t *testing.T) {
	c := recent.New()
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 10_000 {
				c.Add()
			}
		})
	}
	if wait.Wait(); c.Count() != 80_000 {
		t.Errorf("%d events", c.Count())
	}
}
