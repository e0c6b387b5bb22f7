package bucket

import (
	"testing"
	"testing/synctest"
	"time"
)

// Slots are used in time, once, first come first served.
func TestSlots(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		b := New(time.Now(), 100, 50)
		b.AddSlots(Slots{At: 100 * ms, Every: 10 * ms, N: 3})
		b.AddSlots(Slots{At: 200 * ms, Every: 50 * ms, N: 2})
		check := func(ahead int, take bool, expected time.Duration) {
			t.Helper()
			if n, slotted := b.Ahead(); n != ahead || !slotted {
				t.Errorf("after %v %d slots are ahead, want %d", b.Now(), n, ahead)
			}
			if _, d := b.Line(1); d != expected {
				t.Errorf("after %v the wait is %v, want %v", b.Now(), d, expected)
			}
			if got := b.Take(1); got != take {
				t.Errorf("after %v Take returned %v", b.Now(), got)
			}
		}
		check(5, false, 100*ms)
		time.Sleep(105 * ms)
		check(5, true, 0)
		check(4, false, 5*ms)
		time.Sleep(5*ms + slotGrace) // the second slot has just passed, the third is there
		check(3, true, 0)
		check(2, false, 80*ms)

		// Three wait for two slots, and the third for tokens at the rate.
		var took [3]time.Duration
		done := make(chan struct{})
		for i := range took {
			go func() {
				if err := b.Wait(t.Context(), 1); err != nil {
					t.Error(err)
				}
				took[i] = b.Now()
				done <- struct{}{}
			}()
			synctest.Wait()
		}
		if n, d := b.Line(1); n != 3 || d != 130*ms+20*ms {
			t.Errorf("%d wait, and the next one %v", n, d)
		}
		<-done
		<-done
		b.ClearSlots()
		<-done
		if took != [3]time.Duration{200 * ms, 250 * ms, 260 * ms} {
			t.Errorf("they came after %v", took)
		}
	})
}
