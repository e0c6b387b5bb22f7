package main

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// A clocking is whose time a run goes by.
type clocking int

const (
	virtualTime clocking = iota
	theWallClock
)

// A row is what came of one library in one case.
type row[F any] struct {
	library string
	on      clocking
	figures F
}

// results are by case, in its order; within one first the libraries in virtual time, then those on the wall clock.
type results struct {
	throttled [][]*row[throttled]
	stormy    [][]*row[stormy]
}

// run runs every case through every library in virtual time. Where rate limiters wait in line, those that take part on the wall clock
// run once more on it, since one of them needs help in virtual time: it is seen whether the two agree.
func (c cases) run(progress io.Writer) results {
	var r results
	var jobs [2][]func() // by clocking
	for _, t := range c.throttlings {
		r.throttled = append(r.throttled, append(plan(&jobs, virtualTime, t.run), plan(&jobs, theWallClock, t.run)...))
	}
	for _, s := range c.storms {
		r.stormy = append(r.stormy, plan(&jobs, virtualTime, s.run))
	}
	fmt.Fprintf(progress, "%d runs in virtual time", len(jobs[virtualTime]))
	atOnce(jobs[virtualTime], runtime.GOMAXPROCS(0), func(job func()) {
		synctest.Test(new(testing.T), func(*testing.T) { job() }) // nothing is logged to the T or failed on it, so any will do
		fmt.Fprint(progress, ".")
	})
	fmt.Fprintf(progress, "\n%d runs on the wall clock, all at once", len(jobs[theWallClock]))
	atOnce(jobs[theWallClock], len(jobs[theWallClock]), func(job func()) { // they mostly sleep
		job()
		fmt.Fprint(progress, ".")
	})
	fmt.Fprintln(progress)
	return r
}

// plan makes a row for each library that takes part, and adds the jobs that fill it in.
func plan[F any](jobs *[2][]func(), on clocking, run func(func(http.RoundTripper) call, clocking) F) []*row[F] {
	var rows []*row[F]
	for _, lib := range libraries {
		client := lib.client
		if on == theWallClock {
			client = lib.wall
		}
		if client == nil {
			continue
		}
		r := &row[F]{library: lib.name, on: on}
		rows = append(rows, r)
		jobs[on] = append(jobs[on], func() { r.figures = run(client, on) })
	}
	return rows
}

// atOnce does all jobs, so many at a time.
func atOnce(jobs []func(), limit int, do func(job func())) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range limit {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(jobs)); i = next.Add(1) - 1 {
				do(jobs[i])
			}
		})
	}
	workers.Wait()
}
