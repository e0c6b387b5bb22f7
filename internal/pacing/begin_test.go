package pacing

import (
	"testing"
	"time"
)

// After Begin the rate doubles until something is throttled.
func TestBegin(t *testing.T) {
	for name, law := range laws() {
		t.Run(name, func(t *testing.T) {
			now := time.Second
			law.Begin(now, 20)
			highest := 0.0
			for end := now + 5*time.Second; now < end; {
				rate, _ := law.Pace()
				highest = max(highest, rate)
				sent := now
				now += time.Duration(float64(time.Second) / rate)
				law.Update(now, sent, rate > 100)
				if now < 2*time.Second && rate > 100 {
					t.Fatalf("rate %v after %v", rate, now-time.Second)
				}
			}
			rate, _ := law.Pace()
			if highest < 100 || highest > 160 || rate < 40 || rate > 110 {
				t.Errorf("the limit is 100: the rate was up to %v and is %v", highest, rate)
			}
		})
	}
}
