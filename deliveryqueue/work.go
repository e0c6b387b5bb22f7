package deliveryqueue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
	"example.com/awsretry/deliveryqueue/internal/ownfault"
	"example.com/awsretry/internal/awsproto"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// A worker makes one attempt of a delivery.
type worker struct {
	river.WorkerDefaults[args]
	queue   *Queue
	fetcher *fetcher
}

// The reasons of dead letters that are not an awsretry.Stop.
const (
	reasonUnreadable = "unreadable"
	reasonPanic      = "panic"
	reasonCrashed    = "crashed"
	reasonStore      = "store"
)

// Work makes an attempt and commits its outcome.
func (w *worker) Work(ctx context.Context, job *river.Job[args]) error {
	q := w.queue
	defer w.fetcher.leave(job.ID)
	now := clockOf(job.JobRow)
	meta, err := readMetadata(job.Metadata)
	if err != nil {
		return q.bury(ctx, job, record{Reason: reasonUnreadable}, err)
	}
	rec := meta.Record
	if job.Attempt > crashLimit {
		rec.Reason = reasonCrashed
		return q.bury(ctx, job, rec, nil)
	}
	stored, err := q.read(job.Args.raw, meta.Head)
	if errors.Is(err, errNewer) {
		if q.newerRows.due(time.Minute) {
			q.config.Logger.WarnContext(ctx, "deliveryqueue: a delivery is left to a newer program", "delivery", job.ID, "error", err)
		}
		return q.snooze(ctx, job, rec, time.Minute)
	}
	if err != nil {
		rec.Reason = reasonUnreadable
		return q.bury(ctx, job, rec, err)
	}
	ctx = context.WithValue(ctx, idKey{}, job.ID)
	late := awsretry.Attempt{Stop: awsretry.StopDeadline, Err: errDeadline}
	if stored.ended(now()) {
		return q.fail(ctx, job, stored, rec, late)
	}
	h := w.fetcher.ledger.of(job.ID)
	if yes, err := q.awaitTurn(ctx, rateOf(job.ID, stored.policy), meta.Head.Endpoint, h); refuses(err) {
		rec.Reason = reasonStore
		return q.bury(ctx, job, rec, err)
	} else if err != nil {
		q.config.Logger.DebugContext(ctx, "deliveryqueue: a delivery waits", "delivery", job.ID, "error", err)
		return q.snooze(ctx, job, rec, time.Second)
	} else if !yes {
		return q.snooze(ctx, job, rec, 0)
	}

	began := now()
	if stored.ended(began) { // since its turn was asked for
		return q.fail(ctx, job, stored, rec, late)
	}
	a := q.attempt(ctx, stored, rec.Attempts+1)
	beginning := q.beginning(ctx, a.Response)
	took := now().Sub(began)
	w.fetcher.ledger.responded(job.ID, took, a.Class == awsretry.Success, now())
	after := rec.after(a, began, took, beginning)
	if q.config.RetryStatus == nil && after.Refused != 0 && began.Sub(time.UnixMicro(after.Refused)) >= refusedFor {
		a.Class, a.Stop = awsretry.Permanent, awsretry.StopPermanent
	}
	defer w.after(ctx, job, a, now)
	q.obey(ctx, meta.Head.Endpoint, a)
	switch {
	case a.Class == awsretry.Success:
		return q.settle(ctx, end(job.JobRow, rivertype.JobStateCompleted, after))
	case ctx.Err() != nil && (a.Stop == awsretry.StopCanceled || a.Stop == awsretry.StopDeadline):
		// Run stops, or the delivery was canceled.
		return q.snooze(ctx, job, rec, 0)
	case h.disabled && a.Class.Retryable() && !stored.ended(now().Add(probeInterval)):
		after.Attempts = rec.Attempts // the policy continues when the endpoint has recovered
		return q.settle(ctx, again(job.JobRow, after, probeInterval))
	case a.Stop == "" && !stored.ended(now().Add(a.Delay)):
		return q.settle(ctx, again(job.JobRow, after, a.Delay))
	case a.Stop == "":
		a.Stop = awsretry.StopDeadline
	}
	return q.fail(ctx, job, stored, after, a)
}

var (
	errPanicked = errors.New("deliveryqueue: the attempt ended in a panic")
	errDeadline = errors.New("deliveryqueue: the deadline of the delivery has passed")
)

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

// obey prevents attempts at the endpoint for its Retry-After.
func (q *Queue) obey(ctx context.Context, endpoint string, a awsretry.Attempt) {
	if a.Response == nil || !a.Class.Retryable() || q.config.MaxRetryAfter < 0 {
		return
	}
	wait := awsproto.RetryAfter(a.Response.Header, time.Now())
	if wait = min(wait, q.config.MaxRetryAfter); wait == 0 {
		return
	}
	if err := q.store.leaveAlone(ctx, endpoint, wait); err != nil {
		q.config.Logger.DebugContext(ctx, "deliveryqueue: a Retry-After was not noted", "endpoint", endpoint, "error", err)
	}
}

// after reads the rest of the response, and records how the endpoint responded.
func (w *worker) after(ctx context.Context, job *river.Job[args], a awsretry.Attempt, now func() time.Time) {
	q, failed := w.queue, a.Class != awsretry.Success
	if a.Response != nil {
		q.hook(ctx, "Base", func() { finish(a.Response) })
	}
	switch {
	case ctx.Err() != nil:
		return
	case ownfault.Is(a.Err):
		if q.ownFaults.due(time.Minute) {
			q.config.Logger.WarnContext(ctx, "deliveryqueue: this process could not send a delivery", "delivery", job.ID, "error", a.Err)
		}
		return
	}
	endpoint, before, after := w.fetcher.ledger.saw(job.ID, failed, time.Now())
	var err error
	if before != after {
		err = q.store.setHealth(ctx, endpoint, failed)
	}
	if before.disabled && !after.disabled && err == nil {
		q.config.Logger.WarnContext(ctx, "deliveryqueue: an endpoint is back", "endpoint", endpoint)
	}
	limit := q.config.DisableAfter
	gone := a.Response != nil && a.Response.StatusCode == http.StatusGone && a.Class == awsretry.Permanent
	host := gone && endpointOf(a.Request.URL) == endpoint
	if gone = gone && !(host && w.fetcher.ledger.delivered(endpoint, now())); gone {
		limit = 0
	}
	if err == nil && failed && !after.disabled && (gone || limit > 0 && time.Since(after.failing) >= limit) {
		err = q.disable(ctx, endpoint, limit, gone && host)
	}
	if err != nil {
		q.config.Logger.DebugContext(ctx, "deliveryqueue: the health of an endpoint was not noted", "endpoint", endpoint, "error", err)
	}
}

func (q *Queue) disable(ctx context.Context, endpoint string, limit time.Duration, idle bool) error {
	since, disabled, err := q.store.disable(ctx, endpoint, limit, probeInterval, idle)
	if err != nil || !disabled {
		return err
	}
	q.config.Logger.WarnContext(ctx, "deliveryqueue: an endpoint is disabled", "endpoint", endpoint, "failing since", since)
	if q.config.OnDisabled != nil {
		q.hook(ctx, "OnDisabled", func() { q.config.OnDisabled(endpoint, since) })
	}
	return nil
}

// hook calls a function of the configuration that nothing depends on.
func (q *Queue) hook(ctx context.Context, name string, call func()) {
	defer func() {
		if value := recover(); value != nil {
			q.config.Logger.ErrorContext(ctx, "deliveryqueue: Config."+name+" panicked", "panic", value)
		}
	}()
	call()
}

// snooze makes the job run again after delay. No attempt that counts was made.
func (q *Queue) snooze(ctx context.Context, job *river.Job[args], rec record, delay time.Duration) error {
	c := again(job.JobRow, rec, delay)
	c.silent = true
	return q.settle(ctx, c)
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
	deadline, _ := ctx.Deadline() // of the job; a stop of Run does not cancel the hook
	taking, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	if err := q.giveAway(taking, stored, rec, a); err != nil {
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
