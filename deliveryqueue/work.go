package deliveryqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// A worker makes one attempt of a delivery.
type worker struct {
	river.WorkerDefaults[args]
	queue *Queue
}

// NextRetry returns when a job whose run panicked runs again.
func (*worker) NextRetry(*river.Job[args]) time.Time { return time.Now().Add(time.Second) }

// The reasons of dead letters that are not an awsretry.Stop.
const (
	reasonUnreadable = "unreadable"
	reasonPanic      = "panic"
	reasonCrashed    = "crashed"
)

// Work makes an attempt and commits its outcome.
func (w *worker) Work(ctx context.Context, job *river.Job[args]) error {
	q := w.queue
	clock := clockOf(job.JobRow)
	meta, err := readMetadata(job.Metadata)
	if err != nil {
		return q.bury(ctx, job, record{Reason: reasonUnreadable}, err)
	}
	rec := meta.Record
	stored, err := q.read(job.Args.raw)
	if err != nil {
		rec.Reason = reasonUnreadable
		return q.bury(ctx, job, rec, err)
	}
	if stored.ended(clock.now()) {
		return q.fail(ctx, job, stored, rec, awsretry.Attempt{Stop: awsretry.StopDeadline, Err: errDeadline})
	}
	if now, later, err := q.throttle(ctx, clock, stored.policy, meta.Head.Endpoint, &rec); err != nil {
		q.config.Logger.WarnContext(ctx, "deliveryqueue: the throttle", "delivery", job.ID, "error", err)
		return q.snooze(ctx, job, rec, time.Second)
	} else if !now {
		return q.snooze(ctx, job, rec, later)
	}

	a := q.attempt(ctx, stored, rec.Attempts+1)
	if a.Response != nil {
		defer finish(a.Response)
	}
	switch {
	case a.Class == awsretry.Success:
		return q.deliver(ctx, job, rec.after(a))
	case ctx.Err() != nil && (a.Stop == awsretry.StopCanceled || a.Stop == awsretry.StopDeadline):
		// Run stops, or the delivery was canceled.
		return q.snooze(ctx, job, rec, 0)
	case a.Stop == "" && !stored.ended(clock.now().Add(a.Delay)):
		return q.snooze(ctx, job, rec.after(a), a.Delay)
	case a.Stop == "":
		a.Stop = awsretry.StopDeadline
	}
	return q.fail(ctx, job, stored, rec.after(a), a)
}

var (
	errPanicked = errors.New("deliveryqueue: the attempt ended in a panic")
	errDeadline = errors.New("deliveryqueue: the deadline of the delivery has passed")
)

// fail ends a delivery that failed for good.
func (q *Queue) fail(ctx context.Context, job *river.Job[args], stored unread, rec record, a awsretry.Attempt) error {
	rec.Reason = string(a.Stop)
	if errors.Is(a.Err, errPanicked) {
		rec.Reason = reasonPanic
	}
	if q.config.DeadLetter == nil {
		return q.bury(ctx, job, rec, a.Err)
	}
	return q.handOver(ctx, job, stored, rec, a)
}

// attempt makes one attempt. A panic ends the delivery, unless it got a 2xx, as
// in delivery.Transport.
func (q *Queue) attempt(ctx context.Context, stored unread, number int) (a awsretry.Attempt) {
	req, err := stored.request(ctx)
	if err != nil {
		return awsretry.Attempt{Number: number, Err: err, Class: awsretry.Permanent, Stop: awsretry.StopBody}
	}
	var seen awsretry.Attempt
	defer func() {
		value := recover()
		switch {
		case value == nil:
		case seen.Class == awsretry.Success && seen.Response != nil: // Observe panicked
			a = seen
		default:
			a = awsretry.Attempt{
				Request: req, Number: number, Err: fmt.Errorf("%w: %v", errPanicked, value),
				Class: awsretry.Permanent, Stop: awsretry.StopPermanent,
			}
		}
	}()
	policy := *stored.policy
	policy.ThrottlePolicy = nil // the store has the throttle
	t := delivery.Transport{Policy: &policy, Base: q.config.Base, AttemptTimeout: q.config.AttemptTimeout}
	t.Observe = func(a awsretry.Attempt) {
		seen = a
		if q.config.Observe != nil {
			q.config.Observe(a)
		}
	}
	return t.Attempt(req, number)
}

// maxDrain limits how much of a response is read so that its connection can be
// reused.
const maxDrain = 64 << 10

// finish drains and closes the response. The attempt's timeout bounds it.
func finish(resp *http.Response) {
	if _, upgraded := resp.Body.(io.Writer); !upgraded {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxDrain))
	}
	resp.Body.Close()
}

// snooze makes the job run again after delay.
func (q *Queue) snooze(ctx context.Context, job *river.Job[args], rec record, delay time.Duration) error {
	return q.settle(ctx, again(job.JobRow, rec, delay))
}

func (q *Queue) deliver(ctx context.Context, job *river.Job[args], rec record) error {
	return q.settle(ctx, end(job.JobRow, rivertype.JobStateCompleted, rec))
}

// bury makes the delivery a dead letter in the store.
func (q *Queue) bury(ctx context.Context, job *river.Job[args], rec record, err error) error {
	if rec.Err == "" {
		rec.setErr(err)
	}
	return q.settle(ctx, end(job.JobRow, rivertype.JobStateDiscarded, rec))
}

// handOver passes the dead letter to Config.DeadLetter, and keeps it in the
// store if that fails.
func (q *Queue) handOver(
	ctx context.Context, job *river.Job[args], stored unread, rec record, a awsretry.Attempt,
) error {
	if err := q.giveAway(context.WithoutCancel(ctx), stored, rec, a); err != nil {
		if a.Err != nil {
			err = fmt.Errorf("%w; and the dead letter was not taken: %w", a.Err, err)
		}
		rec.setErr(err)
		return q.bury(ctx, job, rec, nil)
	}
	return q.settle(ctx, end(job.JobRow, rivertype.JobStateCancelled, rec))
}

func (q *Queue) giveAway(ctx context.Context, stored unread, rec record, a awsretry.Attempt) (err error) {
	req, err := stored.request(ctx)
	if err != nil {
		return err
	}
	if req.Body == nil {
		req.Body = http.NoBody
	}
	defer req.Body.Close()
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("Config.DeadLetter panicked: %v", value)
		}
	}()
	dead := delivery.DeadLetter{Request: req, Attempts: rec.Attempts, Err: a.Err, Reason: rec.Reason}
	if a.Response != nil {
		shown := *a.Response
		shown.Body = http.NoBody
		dead.Response = &shown
	}
	return q.config.DeadLetter(ctx, dead)
}
