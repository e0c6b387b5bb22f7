// Package deliveryqueue keeps deliveries in a store, so that they outlive the
// process: what a [delivery.Transport] holds in a goroutine for an hour, six
// hours or 23 days is a row in an SQLite file or a PostgreSQL database here.
// The store is a River job queue (github.com/riverqueue/river). Each attempt is
// one run of its job, made by [delivery.Transport.Attempt], and the policy's
// schedule says when the job runs next.
//
// # Guarantees
//
// At least once: a delivery that Enqueue accepted is attempted until an
// endpoint responds with a 2xx, or it fails for good and becomes a dead letter,
// or is canceled. It survives kill -9 of any process and a crash of the machine:
// Enqueue returns when the row is committed, in SQLite with synchronous=FULL,
// in PostgreSQL by its own synchronous_commit.
//
// More than once: if a process dies in an attempt, the attempt is made again,
// although the endpoint may have it already. The outcome of an attempt is
// committed before the worker takes the next delivery, so that a crash repeats
// at most as many deliveries as there are workers in the process. So does a
// stop that cuts attempts off, and a store that takes no writes for longer than
// a worker waits for it.
//
// Exactly once needs the endpoint: each attempt of a delivery has the same
// Idempotency-Key header. An endpoint that remembers the keys it has seen, for
// as long as the policy runs, sees a delivery once.
//
// Order is not promised: each delivery has a schedule of its own.
//
// Nothing is dropped: what failed for good stays in the store as a dead letter,
// with its body and headers, until Redrive, or until Config.DeadLetter has
// taken it. A row that cannot be read, and one in whose attempts the process
// died 1,000 times, become dead letters too.
//
// # Time
//
// A retry is late by Config.PollInterval at most, if a worker is free. A
// delivery whose process died is attempted again when Config.AttemptTimeout and
// 44 seconds have passed, and 5 seconds at most after that.
//
// Times are those of the store's clock: PostgreSQL's, or in SQLite the
// machine's. The clocks of the processes may differ from it. If it is set back,
// deliveries that wait longer than 5 seconds wait longer by as much. If the
// clock of a process is ahead of PostgreSQL's, its new deliveries are attempted
// up to 5 seconds late. Delivery.Enqueued is by the clock of the process.
package deliveryqueue
