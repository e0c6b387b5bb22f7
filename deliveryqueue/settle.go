package deliveryqueue

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/riverqueue/river/rivertype"
)

const (
	settleTimeout = 30 * time.Second // how long the outcome of an attempt waits for the store
	firstPause    = 50 * time.Millisecond
	longestPause  = time.Second
)

// settle commits the outcome of an attempt, and returns the error for Work to
// return. It retries while the store accepts no writes, even if Run is
// stopping. An outcome that it cannot commit is lost, and the job runs again
// when its process counts as dead. River does not commit it instead: it uses
// this process's clock, and another process may have taken the job over by
// then.
func (q *Queue) settle(ctx context.Context, own *change) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		row, made, err := q.settling.commit(ctx, q.store.settle, own)
		if err == nil {
			if made && !own.silent && q.config.OnOutcome != nil {
				q.hook(ctx, "OnOutcome", func() { q.config.OnOutcome(own.outcome(row)) })
			}
			return settled{}
		}
		if rec := own.Record[rivertype.MetadataKeyOutput]; refuses(err) && rec.Reason != reasonStore {
			rec = record{Reason: reasonStore, Attempts: rec.Attempts}
			rec.setErr(err)
			own = end(own.job, rivertype.JobStateDiscarded, rec)
			continue
		}
		select {
		case <-ctx.Done():
			q.config.Logger.WarnContext(ctx, "deliveryqueue: an outcome was not committed", "delivery", own.ID, "error", err)
			return settled{}
		case <-time.After(pause):
		}
	}
}

// A group commits outcomes in batches: those that arrive during a commit are
// committed together after it. Each worker waits for its own.
type group struct {
	mu      sync.Mutex
	waiting []*outcome

	committing chan struct{} // a lock: has a value during a commit
}

func newGroup() *group { return &group{committing: make(chan struct{}, 1)} }

// A settleFunc commits outcomes: store.settle.
type settleFunc func(ctx context.Context, changes []*change) (map[int64]committed, error)

// An outcome is a change in a group. The group's committing guards the other
// fields.
type outcome struct {
	change *change
	done   bool
	row    committed
	made   bool
	err    error
}

// commit commits c, possibly together with others. It returns the job's new state,
// and whether the change was made.
func (g *group) commit(ctx context.Context, settle settleFunc, c *change) (row committed, made bool, err error) {
	own := &outcome{change: c}
	g.mu.Lock()
	g.waiting = append(g.waiting, own)
	g.mu.Unlock()

	g.committing <- struct{}{}
	runtime.Gosched() // others that end now join the batch
	defer func() { <-g.committing }()
	if own.done { // in another caller's batch
		return own.row, own.made, own.err
	}
	g.mu.Lock()
	together := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	for _, o := range together {
		o.err = errNotCommitted
	}
	defer func() {
		for _, o := range together {
			o.done = true
		}
	}()
	settleAll(ctx, settle, together)
	return own.row, own.made, own.err
}

// settleAll commits outcomes together. If two are of one job, or the store refuses a
// value of one, it commits each by itself.
func settleAll(ctx context.Context, settle settleFunc, all []*outcome) {
	changes, jobs := make([]*change, len(all)), make(map[int64]bool)
	for i, o := range all {
		changes[i] = o.change
		jobs[o.change.ID] = true
	}
	var rows map[int64]committed
	var err error
	if len(jobs) == len(all) {
		rows, err = settle(ctx, changes)
	}
	if len(jobs) < len(all) || refuses(err) && len(all) > 1 {
		for i := range all {
			settleAll(ctx, settle, all[i:i+1])
		}
		return
	}
	for _, o := range all {
		o.err = err
		o.row, o.made = rows[o.change.ID]
	}
}

// errNotCommitted is the error of outcomes after a panic.
var errNotCommitted = errors.New("the outcome was not committed")

// settled is the error that Work returns to keep River from committing the
// outcome. River would do so some milliseconds after the worker took the next
// job, so a crash would repeat more deliveries, and the job may be running
// again by then. With these methods, a River worker reports the results of a
// batch of jobs; this batch is empty.
type settled struct{}

func (settled) Error() string               { return "the outcome is not for River to commit" }
func (settled) Jobs() []*rivertype.JobRow   { return nil }
func (settled) ErrorsByID() map[int64]error { return nil }
