package bucket

import (
	"testing"
	"testing/synctest"
	"time"
)

// Align moves the next token by at most half of a token's time, and not a token
// that is there.
func TestAlign(t *testing.T) {
	for _, test := range []struct {
		name   string
		passes time.Duration // after the bucket was emptied
		at     time.Duration // from then on
		want   float64
	}{
		{"later", 400 * time.Millisecond, 800 * time.Millisecond, 0.2},
		{"earlier", 400 * time.Millisecond, 300 * time.Millisecond, 0.7},
		{"tokens later", 400 * time.Millisecond, 3300 * time.Millisecond, 0.7},
		{"in the past", 400 * time.Millisecond, -3200 * time.Millisecond, 0.2},
		{"below zero", 100 * time.Millisecond, 1200 * time.Millisecond, -0.2},
		{"a token is there", 1500 * time.Millisecond, 700 * time.Millisecond, 1.5},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newEmpty(1, 2)
				time.Sleep(test.passes)
				b.Align(b.Now() + test.at)
				if !near(b.tokens, test.want, 1e-6) {
					t.Errorf("%v tokens, want %v", b.tokens, test.want)
				}
			})
		})
	}
}

// What came back while the bucket was full is lost, once.
func TestTakeLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newEmpty(2, 3)
		time.Sleep(time.Second)
		if got := b.TakeLost(); got != 0 {
			t.Errorf("lost %v tokens of a bucket that is not full", got)
		}
		time.Sleep(4 * time.Second)
		b.Take(1)
		if got := b.TakeLost(); !near(got, 7, 1e-6) {
			t.Errorf("lost %v tokens, want 7", got)
		}
		if got := b.TakeLost(); got != 0 {
			t.Errorf("lost %v tokens twice", got)
		}
	})
}
