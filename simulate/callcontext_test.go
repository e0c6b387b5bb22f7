package simulate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A call's context ends like one of package context, and so do those that are
// made of it.
func TestContextOfACall(t *testing.T) {
	for _, tt := range []struct {
		name     string
		deadline time.Duration // 0: none
		end      func(*contexts, *callContext)
		after    time.Duration
		want     error
	}{
		{"at its deadline", time.Second, func(*contexts, *callContext) {}, time.Second, context.DeadlineExceeded},
		{"with the run", time.Second, func(l *contexts, _ *callContext) { l.end() }, 0, context.Canceled},
		{"with the run, without a deadline", 0, func(l *contexts, _ *callContext) { l.end() }, 0, context.Canceled},
		{"with the call", time.Second, (*contexts).remove, 0, context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var all contexts
				others := []*callContext{{}, {}}
				c := &callContext{}
				if tt.deadline > 0 {
					c.deadline = time.Now().Add(tt.deadline)
				}
				all.add(others[0])
				all.add(c)
				all.add(others[1])
				child, cancel := context.WithCancel(c)
				defer cancel()
				brief, stop := context.WithCancel(c)
				stop()
				if len(c.ends) != 1 {
					t.Errorf("%d contexts wait for the end, want 1: the other has ended", len(c.ends))
				}
				if c.Err() != nil || child.Err() != nil || brief.Err() == nil {
					t.Fatalf("errors %v, %v and %v before the end", c.Err(), child.Err(), brief.Err())
				}
				start := time.Now()
				tt.end(&all, c)
				<-child.Done()
				<-c.Done()
				if took := time.Since(start); took != tt.after {
					t.Errorf("it ends after %v, want %v", took, tt.after)
				}
				if !errors.Is(c.Err(), tt.want) || !errors.Is(child.Err(), tt.want) {
					t.Errorf("errors %v and %v, want %v", c.Err(), child.Err(), tt.want)
				}
				late, cancel := context.WithCancel(c)
				defer cancel()
				if <-late.Done(); !errors.Is(late.Err(), tt.want) {
					t.Errorf("error %v of a context that is made after the end, want %v", late.Err(), tt.want)
				}
				all.remove(c)
				all.end()
				for i, other := range others {
					if !errors.Is(other.Err(), context.Canceled) {
						t.Errorf("error %v of context %d after the end of the run", other.Err(), i)
					}
				}
				born := &callContext{}
				all.add(born)
				if !errors.Is(born.Err(), context.Canceled) || !all.over() {
					t.Errorf("error %v of a context that begins after the run", born.Err())
				}
			})
		})
	}
}

// Calls that follow each other are made by one goroutine.
func TestWorkersAreUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tiny().WithDefaults()
		g := newGrid(10)
		record := newRecorder(time.Duration(s.Duration), 1, nil)
		m, err := newMaker(s.Settings[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		f := newFleet(s, m, g, newService(s, g, record), record)
		for _, together := range []int{1, 1, 2, 1} {
			for i := range together {
				f.workers.do(task{f, f.clients[0], call{owner: 1 + i, start: g.now()}})
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if idle := len(f.workers.idle); idle != 2 {
			t.Errorf("%d goroutines for two calls at a time", idle)
		}
		f.stop()
		if good := record.perClient[0].good.Load(); good != 5 {
			t.Errorf("%d calls succeed, want 5", good)
		}
	})
}
