package deliveryqueue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/riverqueue/river/rivertype"
)

const (
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
)

// settle commits the outcome of an attempt, and returns what Work returns. It
// waits for a store that takes no writes, also while Run stops. An outcome that
// it cannot commit is lost, and the job runs again when its process would count
// as dead: what River would commit in its place is by the clock of this process,
// and might be after another process has taken the job over.
func (q *Queue) settle(ctx context.Context, own *change) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), q.timing.settle)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := q.settling.commit(ctx, &q.store, own)
		if err == nil {
			return settled{}
		}
		select {
		case <-ctx.Done():
			q.config.Logger.WarnContext(ctx, "deliveryqueue: an outcome was not committed", "delivery", own.ID, "error", err)
			return settled{}
		case <-time.After(pause):
		}
	}
}

// A group commits the outcomes that come while one is being committed together,
// after it. Each worker waits for its own.
type group struct {
	mu      sync.Mutex
	waiting []*outcome

	committing chan struct{} // has a value while one is being committed
}

func newGroup() *group { return &group{committing: make(chan struct{}, 1)} }

// A settler commits outcomes.
type settler interface {
	settle(ctx context.Context, changes []*change) error
}

// An outcome is one of a group. Its last fields are guarded by the group's
// committing.
type outcome struct {
	change *change
	done   bool
	err    error
}

// commit returns when the outcome has been committed, or that has failed.
func (g *group) commit(ctx context.Context, to settler, c *change) error {
	own := &outcome{change: c}
	g.mu.Lock()
	g.waiting = append(g.waiting, own)
	g.mu.Unlock()

	g.committing <- struct{}{}
	defer func() { <-g.committing }()
	if own.done { // together with another one
		return own.err
	}
	g.mu.Lock()
	together := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	err := errNotCommitted
	defer func() {
		for _, o := range together {
			o.done, o.err = true, err
		}
	}()
	changes := make([]*change, len(together))
	for i, o := range together {
		changes[i] = o.change
	}
	err = to.settle(ctx, changes)
	return err
}

// errNotCommitted is the error of outcomes after a panic.
var errNotCommitted = errors.New("the outcome was not committed")

// settled is what Work returns, so that River commits no outcome. It would do
// so some milliseconds after the worker took the next job: a crash would then
// repeat more deliveries, and the job may run again by then. A worker of many
// jobs returns an error with these methods, to say how each of them ended. This
// one has none.
type settled struct{}

func (settled) Error() string { return "the outcome is not for River to commit" }

func (settled) Jobs() []*rivertype.JobRow { return nil }

func (settled) ErrorsByID() map[int64]error { return nil }

// isFinal reports whether a job in this state runs again only after Redrive.
func isFinal(state rivertype.JobState) bool {
	switch state {
	case rivertype.JobStateCancelled, rivertype.JobStateCompleted, rivertype.JobStateDiscarded:
		return true
	}
	return false
}
