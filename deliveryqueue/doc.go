// Package deliveryqueue keeps deliveries in a store, so that they outlive the
// process. A [delivery.Transport] keeps a delivery in a goroutine for an hour, six
// hours or 23 days; here it is a row in an SQLite file or a PostgreSQL database.
// The store is a River job queue (github.com/riverqueue/river). Each attempt is
// one run of its job, made by [delivery.Transport.Attempt], and the policy's
// schedule determines when the job runs next.
//
// A delivery that Enqueue accepted is attempted until an endpoint responds with a 2xx,
// or it fails for good and becomes a dead letter, or is canceled, whatever process is
// killed. Enqueue returns when the row is committed: in SQLite with synchronous=FULL,
// in PostgreSQL by its own synchronous_commit.
//
// If a process dies or is cut off during an attempt, or cannot store its outcome, the
// attempt is repeated: for at most Config.Workers and 30 deliveries, and
// Config.AttemptTimeout plus 44 to 49 seconds after it began. Each attempt of a delivery
// has the same Idempotency-Key header, by which the endpoint can ignore repetitions.
//
// The order of deliveries is not guaranteed. No endpoint holds up another, however
// slow it is (see Config.Workers and Config.PerEndpoint). A retry is late by at most
// Config.PollInterval, if a worker is free.
//
// Times are those of the store's clock: PostgreSQL's, or in SQLite the
// machine's. The clocks of the processes may differ from it. If it is set back, deliveries
// that wait longer than 5 seconds are late by as much. If it is set forward, attempts in
// progress may be repeated.
package deliveryqueue
