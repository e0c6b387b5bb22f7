package respbody

import (
	"sync"
	"testing"
	"time"
)

// A body that is read ahead may end while its time-out goes on again.
func TestEndDuringResume(t *testing.T) {
	for range 20_000 {
		c := NewContext(t.Context(), time.Hour, 0)
		c.Start()
		resume := c.Hold()
		var ending sync.WaitGroup
		ending.Go(c.End)
		resume()
		ending.Wait()
		if c.timer.Load().Stop() {
			t.Fatal("the timer runs on")
		}
	}
}
