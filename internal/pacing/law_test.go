package pacing

import (
	"testing"
	"time"
)

const second = time.Second

// laws returns both laws, on a clock that begins at 0.
func laws() map[string]Law {
	limits := Limits{MinRate: 0.5, MinCapacity: 1}
	start := time.Unix(0, 0)
	return map[string]Law{
		"cubic":  NewCubic(limits, NewMeter(start, 500*time.Millisecond, 0.8), 0.7, 0.4),
		"scaled": NewScaled(limits, NewMeter(start, 500*time.Millisecond, 0.8), 0.9),
	}
}

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

// A law that resumes the curve of another one goes on as that would have.
func TestResume(t *testing.T) {
	for _, at := range []time.Duration{second / 2, 5 * second, 8 * second} { // since the cut: below the limit, and above
		resumed := laws()
		for name, law := range laws() {
			now := 100 * second
			law.Adopt(now, 80)
			update := func(law Law) { law.Update(now, now-second/10, false) }
			for end := now + at; now < end; now += second / 100 {
				update(law)
			}
			rate, _ := law.Pace()
			other := resumed[name]
			other.Resume(now, rate, law.Limit())
			for end := now + 2*second; now < end; now += second / 100 {
				update(law)
				update(other)
				a, _ := law.Pace()
				if b, _ := other.Pace(); b < 0.95*a || b > 1.05*a {
					t.Fatalf("%s, resumed at %v: the rate is %v, and the other one's %v", name, at, b, a)
				}
			}
		}
	}
}

// A law that adopts a rate is at that rate, and raises it as after a cut.
func TestAdopt(t *testing.T) {
	for name, law := range laws() {
		t.Run(name, func(t *testing.T) {
			law.Adopt(10*second, 20)
			if rate, _ := law.Pace(); rate < 19.9 || rate > 20.1 {
				t.Errorf("rate %v, want 20", rate)
			}
			law.Update(10*second+time.Millisecond, 10*second, false) // the first that it measures
			if rate, _ := law.Pace(); rate < 19.9 || rate > 20.2 {
				t.Errorf("after the first outcome: rate %v, want 20", rate)
			}
			for i := range 200 {
				at := 10*second + time.Duration(i)*50*time.Millisecond
				law.Update(at, at-10*time.Millisecond, false)
			}
			if rate, _ := law.Pace(); rate < 20 || rate > 41 {
				t.Errorf("after 10 s of 20/s without throttling: rate %v", rate)
			}
			law.Update(21*second, 21*second-time.Millisecond, true)
			if rate, _ := law.Pace(); rate > 30 {
				t.Errorf("after throttling: rate %v", rate)
			}
		})
	}
}
