package deliveryqueue

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// due returns candidates with this many slow attempts in a row each.
func due(slow ...int) []candidate {
	var all []candidate
	for i, n := range slow {
		all = append(all, candidate{Endpoint: fmt.Sprint(i), health: health{slow: n}, turns: math.MaxInt})
	}
	return all
}

func TestAllot(t *testing.T) {
	t.Parallel()
	throttled := due(0, 0)
	throttled[0].turns = 1
	for _, test := range []struct {
		name       string
		workers    int
		candidates []candidate
		free       int
		want       []int
	}{
		{"endpoints take turns", 10, due(0, 0, 0), 4, []int{2, 1, 1}},
		{"an endpoint has a third", 10, due(0, 0), 10, []int{3, 3}},
		{"one for who has not responded yet", 10, due(unknown, 0), 10, []int{1, 3}},
		{"one for who was slow", 10, due(1, 2, 0), 10, []int{1, 1, 3}},
		{"a quarter hangs", 12, due(2, 2, 2, 2, 2, 0), 12, []int{1, 1, 1, 0, 0, 4}},
		{"half is slow", 12, due(2, 2, 2, 1, 1, 1, 1, 1, 0), 12, []int{1, 1, 1, 1, 1, 1, 0, 0, 4}},
		{"three quarters have not responded", 12, due(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0), 12,
			[]int{1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 3}},
		{"one worker serves all", 1, due(2, 0), 1, []int{1, 0}},
		{"no worker is free", 10, due(0, 0), 0, []int{0, 0}},
		{"a throttle's turns", 10, throttled, 10, []int{1, 3}},
	} {
		l := newLanes(Config{Workers: test.workers}.withDefaults())
		for job := range int64(test.workers - test.free) {
			l.enter(job, "another", health{})
		}
		left := l.allot(test.candidates)
		var got []int
		for _, c := range test.candidates {
			got = append(got, c.N)
			left += c.N
		}
		if !slices.Equal(got, test.want) || left != test.free || !l.full {
			t.Errorf("%s: %v of %d, full: %v; want %v", test.name, got, left, l.full, test.want)
		}
	}
}

// What is in progress counts, and what takes long counts as slow before it ends.
func TestLanes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(Config{Workers: 10, AttemptTimeout: 3 * time.Second}.withDefaults())
		room := func(slow int) int {
			c := due(slow)
			l.allot(c)
			return c[0].N
		}
		for job := range int64(2) {
			l.enter(job, "0", health{})
			l.begin(job)
		}
		if n := room(0); n != 1 {
			t.Errorf("beside two of three: %d", n)
		}
		time.Sleep(1100 * time.Millisecond)
		if n := room(0); n != 0 {
			t.Errorf("beside two that take long: %d", n)
		}
		for job, want := range []struct {
			took          time.Duration
			slow, changed bool
		}{{time.Second, true, true}, {time.Second / 2, false, true}, {0, false, false}} {
			endpoint, before, after, slow := l.saw(int64(min(job, 1)), want.took, false)
			if endpoint != "0" || slow != want.slow || (before != after) != want.changed {
				t.Errorf("after %v: %s %v %v %v", want.took, endpoint, before, after, slow)
			}
		}
		if !l.leave(0) {
			t.Error("nobody waits for the room")
		}
		l.leave(1)
		if n := room(0); n != 3 || len(l.attempts)+len(l.health) != 0 {
			t.Errorf("after the last: %d, and %d", n, len(l.attempts)+len(l.health))
		}
	})
}

func TestHealth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		h := health{slow: unknown}
		for i, step := range []struct {
			slow, failed bool
			want         health
		}{
			{false, true, health{failing: begin}},
			{true, true, health{slow: 1, failing: begin}},
			{true, false, health{slow: 2}},
			{true, false, health{slow: slowInARow}},
			{false, true, health{failing: begin.Add(4 * time.Second)}},
		} {
			if h = h.after(step.slow, step.failed); h != step.want {
				t.Errorf("after attempt %d: %+v, want %+v", i+1, h, step.want)
			}
			time.Sleep(time.Second)
		}
		h.disabled = true
		if h = h.after(false, true); !h.disabled {
			t.Error("a failure enables the endpoint")
		}
		if h = h.after(false, false); h != (health{}) {
			t.Errorf("after a success: %+v", h)
		}
	})
}

// The endpoints of a class that has a part of the workers take turns in it.
func TestClassesTakeTurns(t *testing.T) {
	t.Parallel()
	l := newLanes(Config{Workers: 8}.withDefaults())
	tries := make([]int, 5)
	for range 10 {
		all := append(due(2, 2, 2, 2, 2), candidate{Endpoint: "z", turns: 1})
		l.allot(all)
		l.advance()
		for i := range tries {
			tries[i] += all[i].N
		}
	}
	if !slices.Equal(tries, []int{4, 4, 4, 4, 4}) {
		t.Errorf("attempts: %v", tries)
	}
}
