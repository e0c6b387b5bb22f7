package deliveryqueue

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"time"

	"example.com/awsretry/delivery"
	"github.com/jackc/pgx/v5"
)

// Options configures one delivery. The zero value is ready to use.
type Options struct {
	// Policy is the delivery policy: retries, content type and throttle. The throttle
	// is the endpoint's, for all of its deliveries and in all processes: that of the
	// newest delivery which was attempted and has one, unless SetThrottle sets it. nil:
	// the default policy.
	Policy *delivery.Policy

	// Endpoint names what this delivery is sent to, such as a customer's ID, or a URL
	// without user, query and fragment. A throttle, a Retry-After, Pause,
	// Config.DisableAfter and Config.PerEndpoint apply to all deliveries with the same
	// name, which is stored in the clear. Set it if many customers have URLs with one
	// host. "": the URL's scheme, host and port.
	Endpoint string

	// IdempotencyKey is sent with each attempt in the header Idempotency-Key.
	// "": the request's own, or a random one. Without Once, two deliveries may
	// have the same key. Enqueue returns an error for a key with control characters
	// and for a request with two keys.
	IdempotencyKey string

	// Once makes Enqueue store nothing, and return the ID of the delivery that the
	// store has, if that one was enqueued with Once, the same IdempotencyKey and the
	// same URL. A delivery that ended is there until Config.KeepDelivered. Enqueue
	// returns an error if neither Options nor the request has a key.
	Once bool

	// Tags are shown by List, and a Filter finds them, unsealed: for example
	// "customer:17". They are at most 20, with 1 to 255 bytes of UTF-8 each.
	Tags []string

	// Delay is how long after Enqueue the first attempt is made, by the store's
	// clock. 0: at once. It must not be negative.
	Delay time.Duration

	// Deadline is the time after which no attempt begins. The delivery becomes a
	// dead letter with the reason "deadline" as soon as its policy has no attempt
	// before the deadline, or when its endpoint may get attempts again. The zero
	// time: the policy ends the delivery. Enqueue returns an error for a time after
	// the year 33658.
	Deadline time.Time
}

// crashLimit is how often a process may die during the attempts of a delivery
// before the delivery becomes a dead letter.
const crashLimit = 1000

// Enqueue stores a delivery durably and returns its ID. It reads and closes the
// request's body. The error is a [*BodyTooLargeError] if the body is longer
// than Config.MaxBody. The request's context is not used.
//
// After an error of ctx or of the connection to the store, the delivery may have
// been stored. Enqueue returns an error if the SQLite file was deleted or replaced
// while it was open. Enqueue waits up to 5 s for an SQLite file that others have
// locked, even if ctx ends earlier, and as long for others that wait for it.
func (q *Queue) Enqueue(ctx context.Context, req *http.Request, o Options) (int64, error) {
	return q.enqueue(ctx, req, o, q.store.insertSoon)
}

// EnqueueTx is like Enqueue within a transaction in the same SQLite file, or in the
// same PostgreSQL database, with any search_path. The delivery is stored when the
// transaction commits, as durably as the transaction's own connection commits.
func (q *Queue) EnqueueTx(ctx context.Context, tx *sql.Tx, req *http.Request, o Options) (int64, error) {
	var in any
	if tx != nil {
		in = tx
	}
	return q.enqueue(ctx, req, o, q.store.within(in))
}

// EnqueuePgxTx is like EnqueueTx within a transaction of pgx.
func (q *Queue) EnqueuePgxTx(ctx context.Context, tx pgx.Tx, req *http.Request, o Options) (int64, error) {
	return q.enqueue(ctx, req, o, q.store.within(tx))
}

// An insertFunc inserts jobs.
type insertFunc func(context.Context, []newJob) (ids []int64, err error)

// within returns the insertFunc of a transaction.
func (s *store) within(tx any) insertFunc {
	return func(ctx context.Context, all []newJob) ([]int64, error) { return s.insert(ctx, tx, all) }
}

func (q *Queue) enqueue(ctx context.Context, req *http.Request, o Options, insert insertFunc) (int64, error) {
	job, err := q.job(req, o)
	var ids []int64
	if err == nil {
		ids, err = q.insertIn(ctx, []newJob{job}, insert)
	}
	if err != nil {
		return 0, errorOf("Enqueue", err)
	}
	return ids[0], nil
}

func (q *Queue) insertIn(ctx context.Context, all []newJob, insert insertFunc) (ids []int64, err error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	if len(all) > 0 {
		ids, err = insert(ctx, all)
	}
	q.asked.give()
	return ids, err
}

// An Item is one of the deliveries of EnqueueMany.
type Item struct {
	Request *http.Request
	Options Options
}

// EnqueueMany is like Enqueue for all items in one transaction: it stores all of
// them or, if it returns an error, none. It returns their IDs in the same order,
// and closes the bodies of all requests. In SQLite, nobody else can write during
// the transaction, so enqueue at most a few thousand at a time: 100,000 may take a
// minute.
func (q *Queue) EnqueueMany(ctx context.Context, items []Item) ([]int64, error) {
	var all []newJob
	var ids []int64
	var fault error
	for i, item := range items {
		if item.Request == nil {
			fault = cmp.Or(fault, fmt.Errorf("item %d has no request", i))
			continue
		}
		job, err := q.job(item.Request, item.Options) // which closes the body
		if err != nil {
			fault = cmp.Or(fault, fmt.Errorf("item %d: %w", i, err))
		}
		all = append(all, job)
	}
	if fault == nil {
		ids, fault = q.insertIn(ctx, all, q.store.insertSoon)
	}
	return ids, errorOf("EnqueueMany", fault)
}
