package tokens

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/announced"
	"example.com/awsretry/internal/waittest"
)

func TestLineIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, q := newEmpty(10, 1), waittest.NewQueue()
		var want ends
		for i := range 100 {
			join(t.Context(), q, b, i, 1)
			want = append(want, end(i, time.Duration(i+1)*100*time.Millisecond, nil))
		}
		_, refused := b.WaitFor(t.Context(), 1, announced.Request{}, 10*time.Second, true)
		if refused == nil || refused.Error() != "tokens: the expected wait of 10.1s is too long" {
			t.Errorf("one who waits 10 s at most got %v", refused)
		}
		wantEnds(t, q, want...)
		wantIdle(t, b)
	})
}

func TestTakeDoesNotOvertakeTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, q := newEmpty(1, 10), waittest.NewQueue()
		join(t.Context(), q, b, 0, 5)
		time.Sleep(4 * time.Second) // enough for the others
		join(t.Context(), q, b, 1, 2)
		if got := b.Tokens(); b.Take(1) || !near(got, 4, 1e-8) {
			t.Errorf("Take overtook the line, or there are %v tokens and not 4", got)
		}
		wantEnds(t, q, end(0, 5*time.Second, nil), end(1, 7*time.Second, nil))
	})
}

func TestCancelPassesTheTurnOn(t *testing.T) {
	sec := time.Second
	gone := errors.New("the caller left")
	for _, tt := range []struct {
		cancel []int
		want   ends
	}{
		{[]int{0}, ends{end(0, sec/2, gone), end(1, sec, nil), end(2, 2*sec, nil), end(3, 3*sec, nil)}},
		{[]int{1, 2}, ends{end(1, sec/2, gone), end(2, sec/2, gone), end(0, sec, nil), end(3, 2*sec, nil)}},
		{[]int{2, 0, 3, 1}, ends{end(0, sec/2, gone), end(1, sec/2, gone), end(2, sec/2, gone), end(3, sec/2, gone)}},
	} {
		t.Run(fmt.Sprint(tt.cancel), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, q := newEmpty(1, 1), waittest.NewQueue()
				var cancels []context.CancelCauseFunc
				for i := range 4 {
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					cancels = append(cancels, cancel)
					join(ctx, q, b, i, 1)
				}
				time.Sleep(sec / 2)
				for _, i := range tt.cancel {
					cancels[i](gone)
					synctest.Wait()
				}
				if _, expected := b.Line(1); expected != time.Duration(5-len(tt.cancel))*sec-sec/2 {
					t.Errorf("the expected wait is %v after %d of 4 left", expected, len(tt.cancel))
				}
				wantEnds(t, q, tt.want...)
				wantIdle(t, b)
			})
		})
	}
}

func TestCancelOfLargeRequestServesSmallAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, q, gone := newEmpty(1, 10), waittest.NewQueue(), errors.New("the caller left")
		large, cancel := waittest.CancelAfter(t.Context(), 3*time.Second, gone)
		defer cancel()
		join(large, q, b, 0, 9)
		join(t.Context(), q, b, 1, 2)
		wantEnds(t, q, end(0, 3*time.Second, gone), end(1, 3*time.Second, nil))
		if b.tokens != 1 {
			t.Errorf("%v tokens are left, want 1", b.tokens)
		}
	})
}

// A grant and a cancel may happen at the same moment. The tokens are not lost.
func TestGrantThatRacesWithCancelIsReturned(t *testing.T) {
	for _, next := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b, q := newEmpty(1, 1), waittest.NewQueue()
			w := mustJoin(t, b, 1)
			if next {
				join(t.Context(), q, b, 1, 1)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if !w.isGranted() {
				t.Fatal("not granted after a second")
			}
			b.leave(w)
			if next {
				wantEnds(t, q, end(1, time.Second, nil))
			} else if b.tokens != 1 {
				t.Errorf("%v tokens, want 1", b.tokens)
			}
			wantIdle(t, b)
		})
	}
}

// A silentContext does not close a channel when it ends.
type silentContext struct{ context.Context }

func (silentContext) Done() <-chan struct{} { return nil }

func TestGrantAfterTheContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newEmpty(1, 1)
		gone := errors.New("the caller left")
		ctx, cancel := waittest.CancelAfter(t.Context(), time.Second/2, gone)
		defer cancel()
		if err := b.Wait(silentContext{ctx}, 1); err != gone {
			t.Errorf("got %v, want %v", err, gone)
		}
		if b.tokens != 1 {
			t.Errorf("%v tokens, want 1", b.tokens)
		}
		wantIdle(t, b)
	})
}

// The tokens of a grant that is returned go to the line first. Only the rest is
// limited to the capacity.
func TestLeaveServesTheLineFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newEmpty(1, 10)
		first, second := mustJoin(t, b, 10), mustJoin(t, b, 10)
		time.Sleep(15 * time.Second) // first is granted at 10 s; 5 tokens are added after it
		synctest.Wait()
		if !first.isGranted() || second.isGranted() {
			t.Fatalf("after 15 s: granted is %v and %v, want true and false", first.isGranted(), second.isGranted())
		}
		b.leave(first)
		if !second.isGranted() || b.tokens != 5 {
			t.Errorf("granted is %v and %v tokens are left, want true and 5", second.isGranted(), b.tokens)
		}
		if b.leave(second); b.tokens != 10 {
			t.Errorf("%v tokens are left, want 10", b.tokens)
		}
		wantIdle(t, b)
	})
}

// Many cancels meet many grants at the same instants. Whatever each caller
// sees, all tokens are accounted for.
func TestCancelsAndGrantsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newEmpty(1000, 100)
		var wg sync.WaitGroup
		var granted atomic.Int64
		for i := range 500 {
			wg.Go(func() {
				ctx, cancel := waittest.CancelAfter(t.Context(), time.Duration(i%100)*time.Millisecond, nil)
				defer cancel()
				if b.Wait(ctx, 1) == nil {
					granted.Add(1)
				}
			})
		}
		wg.Wait()
		// The tokens never reach the capacity: one is added each millisecond, and
		// callers wait for all of them.
		now := b.Now()
		if got, want := float64(granted.Load())+b.Tokens(), now.Seconds()*1000; !near(got, want, 1e-6) {
			t.Errorf("%d granted and %v left, want %v together", granted.Load(), b.Tokens(), want)
		}
		wantIdle(t, b)
	})
}

// A process that was stopped by SIGSTOP, or with its container, does not send all
// waiting requests at once when it resumes. The line gets a full bucket and the
// tokens of maxLate.
func TestNoBurstAfterAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const capacity, rate, callers = 100, 100, 2000
		b := newEmpty(rate, capacity)
		line := make([]*waiter, callers)
		for i := range line {
			line[i] = mustJoin(t, b, 1)
		}
		b.late(time.Minute)
		granted := 0
		for _, w := range line {
			if w.isGranted() {
				granted++
			}
		}
		if want := capacity + int(rate*maxLate.Seconds()); granted != want {
			t.Errorf("%d were served at once, want %d", granted, want)
		}
		for _, w := range line {
			b.leave(w)
		}
		wantIdle(t, b)
	})
}

type panickingContext struct{ context.Context }

func (panickingContext) Done() <-chan struct{} { panic("no channel today") }

func TestPanicOfContextLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newEmpty(1, 1)
		func() {
			defer func() { _ = recover() }()
			err := b.Wait(panickingContext{t.Context()}, 1)
			t.Errorf("no panic, but %v", err)
		}()
		if err := b.Wait(t.Context(), 1); err != nil || b.Now() != time.Second {
			t.Errorf("took at %v, error %v; want 1s, nil", b.Now(), err)
		}
		wantIdle(t, b)
	})
}

// A waiter that is granted its turn and leaves at the same instant returns what the
// ledger took.
func TestLeaveGivesBackToTheLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAnnouncing(0, 0, false)
		says := func(remaining float64) {
			b.Locked(func(now time.Duration) {
				b.ledger.Announce(now, now, announced.Answer{Limits: []announced.Limit{
					{Quota: 100, Remaining: remaining, Reset: time.Minute},
				}})
			})
		}
		left := func() (remaining float64) {
			b.Locked(func(now time.Duration) { remaining = b.ledger.State(now)[0].Remaining })
			return remaining
		}
		says(0)
		w := mustJoinFor(t, b.Bucket, 1, costing("", 1))
		time.Sleep(time.Minute + time.Second) // the end of the window
		synctest.Wait()
		says(90)
		if got := left(); got != 89 {
			t.Fatalf("left %v, want 89: it is not granted", got)
		}
		b.leave(w)
		if got := left(); got != 90 {
			t.Errorf("left %v, want 90", got)
		}
		wantIdle(t, b.Bucket)
	})
}

// Slots are used in time, once, first come first served.
func TestSlots(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		b := New(time.Now(), 100, 50)
		b.AddSlots(100*ms, 10*ms, 3)
		b.AddSlots(200*ms, 50*ms, 2)
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
		time.Sleep(5*ms + slotGrace) // the second slot has just passed, the third is available
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
		b.ClearSlots(0)
		<-done
		if took != [3]time.Duration{200 * ms, 250 * ms, 260 * ms} {
			t.Errorf("they came after %v", took)
		}
	})
}

// A slot that was taken and not used is lost: used later, it would be one more
// request in another second. The slots ahead stay.
func TestSlotsAreNotPutBack(t *testing.T) {
	for name, giveUp := range map[string]func(*Bucket, *waiter){
		"a request that was not sent": func(b *Bucket, _ *waiter) { time.Sleep(time.Second); b.Put(1) },
		"a caller that gives up":      (*Bucket).leave,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newEmpty(1, 1)
				w, next := mustJoin(t, b, 1), mustJoin(t, b, 1)
				b.AddSlots(0, 2*time.Second, 2)
				if !w.isGranted() {
					t.Fatal("the first slot was not granted")
				}
				giveUp(b, w)
				if n, _ := b.Ahead(); n != 1 || next.isGranted() {
					t.Errorf("%d slots are ahead, want 1; the next caller has the first one: %v", n, next.isGranted())
				}
				time.Sleep(2*time.Second - b.Now())
				synctest.Wait()
				if !next.isGranted() {
					t.Error("the second slot was not granted")
				}
			})
		})
	}
}

// A caller that waits for a limit does not hold up others that do not need it.
// Callers that need it are served in order. The timer of such a caller adds no
// tokens for later callers that wait for tokens.
func TestLineOfTwoResources(t *testing.T) {
	const s = time.Second
	core, log := announced.Request{Route: announced.RouteOf("GET", "/repos")}, announced.Request{Route: announced.RouteOf("GET", "/log")}
	for _, tt := range []struct {
		name           string
		rate, capacity float64
		reset          time.Duration // of the limit of log
		line           []announced.Request
		want           ends
	}{
		{"no tokens", 0, 0, 10 * s, []announced.Request{log, core, log, core},
			ends{end(1, 0, nil), end(3, 0, nil), end(0, 11*s, nil), end(2, 12*s, nil)}},
		{"a token in 10 s", .1, 1, 15 * s, []announced.Request{log, core, core, core},
			ends{end(1, 10*s, nil), end(0, 20*s, nil), end(2, 30*s, nil), end(3, 40*s, nil)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newAnnouncing(tt.rate, tt.capacity, tt.rate > 0)
				wait := func(r announced.Request) (time.Duration, error) { return b.WaitFor(t.Context(), 1, r, 0, false) }
				for _, r := range []announced.Request{core, log} {
					sent, err := wait(r)
					if err != nil {
						t.Fatal(err)
					}
					limit := announced.Limit{Name: "core", Quota: 100, Remaining: 90, Reset: time.Hour}
					if r.Route == log.Route {
						limit = announced.Limit{Name: "log", Quota: 100, Reset: tt.reset}
					}
					b.hear(sent, limit)
				}
				q := waittest.NewQueue()
				for id, r := range tt.line {
					q.Join(id, func() error { _, err := wait(r); return err })
				}
				got := q.Wait()
				for i := range got {
					got[i].At = got[i].At.Round(s)
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("got  %v\nwant %v", got, tt.want)
				}
			})
		})
	}
}

// A caller's expected wait includes the known costs of those before it.
func TestExpectedWaitAfterKnownCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAnnouncing(0, 0, false)
		costs := func(units float64) announced.Request { return costing("tokens", units) }
		sent, _ := b.TakeNow(1, costs(1))
		b.hear(sent, announced.Limit{Name: "tokens", Quota: 1000, Remaining: 0, Reset: 100 * time.Second, Refills: true})
		for _, units := range []float64{100, 300} { // at most ten are added in a second, of which .97 are used
			mustJoinFor(t, b.Bucket, 1, costs(units))
		}
		b.mu.Lock()
		wait := b.expectedWait(b.Now(), 1, costs(100))
		b.mu.Unlock()
		if wait.Round(time.Second/10) != 51500*time.Millisecond {
			t.Errorf("500 units are expected after %v", wait)
		}
		time.Sleep(5 * time.Second)
		if _, ok := b.TakeNow(1, costs(1)); ok {
			t.Error("a request that costs less overtook the line")
		}
	})
}

// A wait ends when what a service announces makes it longer than its limit, and a
// deadline leaves room for a response.
func TestLimitOfAWaitForALedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAnnouncing(0, 0, false)
		asks := func(sent, after time.Duration) {
			b.Locked(func(now time.Duration) {
				b.ledger.Announce(now, sent, announced.Answer{Limits: []announced.Limit{{Quota: 100}}, Throttled: true, RetryAfter: after})
				b.ledger.Settle(sent, false)
			})
		}
		sent, _ := b.TakeNow(1, announced.Request{})
		time.Sleep(time.Second)
		asks(sent, 10*time.Second)
		wait := func(ctx context.Context, limit time.Duration) (time.Duration, error) {
			start := time.Now()
			_, err := b.WaitFor(ctx, 1, announced.Request{}, limit, limit > 0)
			return time.Since(start), err
		}
		soon, cancel := context.WithTimeout(t.Context(), 11*time.Second)
		defer cancel()
		var tooLong *TooLongError
		if took, err := wait(soon, 0); took != 0 || !errors.As(err, &tooLong) {
			t.Errorf("a response would come after the deadline: %v, %v", took, err)
		}
		time.AfterFunc(5*time.Second, func() { asks(b.Now(), 14*time.Second) })
		took, err := wait(t.Context(), 12*time.Second)
		if took < 12*time.Second || took > 13*time.Second || !errors.As(err, &tooLong) {
			t.Errorf("%v, %v", took, err)
		}
		if took, err := wait(t.Context(), math.MaxInt64); took < 7*time.Second || err != nil {
			t.Errorf("the longest limit: %v, %v", took, err)
		}
		wantIdle(t, b.Bucket)
	})
}

func path(path string) announced.Request {
	return announced.Request{Route: announced.RouteOf("GET", path)}
}

// A caller whose route turns out to have other limits no longer waits for those of
// the line that it joined.
func TestRoutesThatChangeInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAnnouncing(0, 0, false)
		ahead, _ := b.TakeNow(1, path("/b"))
		a, _ := b.TakeNow(1, path("/a"))
		d, _ := b.TakeNow(1, path("/d"))
		for _, sent := range []time.Duration{a, d} {
			b.hear(sent, announced.Limit{Name: "a", Quota: 100, Reset: 14 * time.Second})
		}
		var line []*waiter
		for _, p := range []string{"/a", "/b", "/c", "/b"} {
			line = append(line, mustJoinFor(t, b.Bucket, 1, path(p)))
		}
		if n, wait := b.Line(1); n != 4 || wait < 14*time.Second {
			t.Errorf("%d wait, and a new caller %v", n, wait)
		}
		b.hear(ahead, announced.Limit{Name: "b", Quota: 100, Remaining: 90, Reset: time.Minute})
		for i, want := range []bool{false, true, true, true} {
			if got := line[i].isGranted(); got != want {
				t.Errorf("caller %d: granted is %v", i, got)
			}
		}
		b.leave(line[0])
		wantIdle(t, b.Bucket)
	})
}

// A new caller does not expect to wait after those whom another limit holds back,
// neither for tokens nor for a limit in common.
func TestExpectedWaitPastTheHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAnnouncing(1, 10, true)
		for _, r := range []struct {
			path string
			left float64
		}{{"/b", 50}, {"/a", 0}} {
			sent, _ := b.TakeNow(1, path(r.path))
			common := announced.Limit{Name: "common", Quota: 100, Remaining: 40, Reset: time.Minute}
			b.hear(sent, announced.Limit{Name: r.path, Quota: 100, Remaining: r.left, Reset: time.Minute}, common)
		}
		for range 30 {
			mustJoinFor(t, b.Bucket, 1, path("/a"))
		}
		if wait := b.ExpectedWait(1, path("/b")); wait != 0 {
			t.Errorf("the other route waits %v", wait)
		}
		if wait := b.ExpectedWait(1, path("/a")); wait < time.Minute {
			t.Errorf("the route waits %v", wait)
		}
		if _, ok := b.TakeNow(1, path("/a")); ok {
			t.Error("a request overtook the line")
		}
		if _, err := b.WaitFor(t.Context(), 1, path("/b"), 0, true); err != nil {
			t.Error(err)
		}
	})
}

// Tokens go to callers in the order in which they came, whatever their limits.
func TestRoutesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, q := newAnnouncing(1, 1, true), waittest.NewQueue()
		line, want := []string{"/a", "/b", "/b", "/c", "/a", "/c", "/b", "/a"}, ends{}
		for _, p := range []string{"/a", "/b", "/c"} {
			sent, _ := b.TakeNow(1, path(p))
			b.hear(sent, announced.Limit{Name: p, Quota: 100, Remaining: 90, Reset: time.Minute})
			b.Put(1)
		}
		b.Take(1)
		for id, p := range line {
			q.Join(id, func() error { _, err := b.WaitFor(t.Context(), 1, path(p), 0, false); return err })
			want = append(want, end(id, time.Duration(id+1)*time.Second, nil))
		}
		wantEnds(t, q, want...)
		wantIdle(t, b.Bucket)
	})
}

// A small request does not take what a large one of another route waits for.
func TestLimitInCommonIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAnnouncing(0, 0, false)
		costs := func(p string, units float64) announced.Request {
			r := costing("common", units)
			r.Route = path(p).Route
			return r
		}
		for _, p := range []string{"/a", "/b"} {
			sent, _ := b.TakeNow(1, costs(p, 1))
			b.hear(sent, announced.Limit{Name: p, Quota: 100, Remaining: 90, Reset: time.Minute},
				announced.Limit{Name: "common", Quota: 1000, Remaining: 100, Reset: 90 * time.Second, Refills: true})
		}
		large, small := mustJoinFor(t, b.Bucket, 1, costs("/a", 300)), mustJoinFor(t, b.Bucket, 1, costs("/b", 90))
		<-large.granted
		synctest.Wait()
		if small.isGranted() && small.sent < large.sent {
			t.Errorf("sent after %v, before the large one after %v", small.sent, large.sent)
		}
		<-small.granted
		wantIdle(t, b.Bucket)
	})
}

// In each round, a caller joins a line of 20,000 whom limits hold back, and is
// granted its token.
func BenchmarkLongLine(b *testing.B) {
	line, routes := newAnnouncing(0, 1, true), []string{"/a", "/b", "/c", "/d", "/e", "/f"}
	for i, name := range routes {
		line.Put(1)
		sent, _ := line.TakeNow(1, path(name))
		limit := announced.Limit{Name: name, Quota: 1e9, Reset: time.Hour}
		if i == 0 {
			limit.Remaining = 1e9
		}
		line.hear(sent, limit, announced.Limit{Name: "common", Quota: 1e9, Remaining: 1e9, Reset: time.Hour})
	}
	line.Put(1)
	for i := range 20_000 {
		mustJoinFor(b, line.Bucket, 1, path(routes[1+i%5]))
	}
	for b.Loop() {
		w := mustJoinFor(b, line.Bucket, 1, path("/a"))
		for !w.isGranted() { // one who probes a limit goes first
			line.Put(1)
		}
	}
	line.timer.Stop()
}

func TestPutWithoutPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(time.Now(), 0, 5)
		b.SetTokens(0)
		b.Limit(announced.New(0), false)
		b.Take(1)
		b.Put(1)
		if b.Pace(); b.Take(1) {
			t.Error("a token that was not taken was put back")
		}
	})
}
