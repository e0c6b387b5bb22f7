// Package deliveryqueue keeps deliveries in a store, so that they outlive the
// process. A [delivery.Transport] keeps a delivery in a goroutine for an hour, six
// hours or 23 days; here it is a row in an SQLite file or a PostgreSQL database.
// The store is a River job queue (github.com/riverqueue/river). Each attempt is
// one run of its job, made by [delivery.Transport.Attempt], and the policy's
// schedule determines when the job runs next.
//
// # Guarantees
//
// At least once: a delivery that Enqueue accepted is attempted until an
// endpoint responds with a 2xx, or it fails for good and becomes a dead letter,
// or is canceled. It survives kill -9 of any process and a crash of the
// machine: Enqueue returns when the row is committed, in SQLite with
// synchronous=FULL, in PostgreSQL by its own synchronous_commit.
//
// More than once: if a process dies during an attempt, the attempt is repeated,
// although the endpoint may have received it. The outcome of an attempt is
// committed before the worker takes the next delivery, so a crash repeats at
// most the attempts in progress, Config.Workers and 30. The same is true of a
// stop that cuts attempts off, and of a store that accepts no writes for longer
// than a worker waits.
//
// Exactly once needs the endpoint's help: each attempt of a delivery has the same
// Idempotency-Key header. An endpoint that stores the keys for as long as the
// policy runs can ignore repetitions.
//
// The order of deliveries is not guaranteed. No endpoint holds up another, however
// slow it is (see Config.Workers and Config.PerEndpoint). Nothing is dropped: what
// failed for good, cannot be read, or was attempted by 1,000 processes that died
// becomes a dead letter.
//
// # Time
//
// A retry is late by at most Config.PollInterval, if a worker is free. A
// delivery whose process died is attempted again Config.AttemptTimeout plus 44
// to 49 seconds after its attempt began.
//
// Times are those of the store's clock: PostgreSQL's, or in SQLite the
// machine's. The clocks of the processes may differ from it. If it is set back,
// deliveries that wait longer than 5 seconds are late by as much.
package deliveryqueue
