package deliveryqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
	"example.com/awsretry/deliveryqueue/webhook"
	"example.com/awsretry/internal/retrier"
)

// A Config is the configuration of a Queue. The zero value is ready to use.
type Config struct {
	// Base sends each attempt. nil: webhook.PublicOnly(), because a customer's URL must
	// not reach the sender's own network. Base: webhook.PublicOnly(webhook.Loopback()...)
	// also sends to this machine.
	Base http.RoundTripper

	// Workers is how many attempts Run makes at the same time. One that takes longer
	// than 250 ms no longer counts, because it only waits for the response; of these,
	// there are as many as leave at most Workers and 30 attempts in progress. Each has a
	// connection and its request in memory. 0: 200.
	Workers int

	MaxBody int64 // the longest body that Enqueue accepts, in bytes; 0: 256 KiB, as at Amazon SNS

	// AttemptTimeout bounds each attempt, up to the end of its response. It also
	// determines when the process of an attempt counts as dead, so use one value
	// in every process that runs the store: a process with a shorter one repeats
	// the longer attempts of the others. 0: 15 s, as at Amazon SNS.
	AttemptTimeout time.Duration

	// PerEndpoint is how many attempts are in progress at the same time at most for
	// one endpoint. 0: of three quarters of Workers and 30 more, an equal part for each
	// endpoint that was used in the last ten minutes, but not less than an eleventh, so
	// that one part is left for another.
	PerEndpoint int

	// RetryStatus reports whether a response with this status is retried, like the
	// RetryStatus of a delivery.Transport; webhook.RetryStatus adds 408 and 425.
	// nil: 429 and 5xx are retried, as at Amazon SNS, and 401, 403 and 404 for an
	// hour, because a deployment of the endpoint may cause them.
	RetryStatus func(status int) bool

	// MaxRetryAfter limits a Retry-After, before whose end no attempt at the
	// endpoint begins, of any delivery. A longer one counts as MaxRetryAfter. 0: 1
	// hour, which is also the maximum; negative: Retry-After is ignored.
	MaxRetryAfter time.Duration

	// DisableAfter disables an endpoint when every attempt at it has failed for
	// this long. Its deliveries then wait, except for one attempt in 5 minutes,
	// which their policies do not count unless it fails for good. A success or
	// Resume enables the endpoint. 0: endpoints are not disabled for that.
	//
	// A response 410 (Gone), unless RetryStatus retries it, disables the endpoint at
	// once, as Standard Webhooks asks. It does not disable a whole host, an endpoint
	// without Options.Endpoint, to which another delivery succeeded in the last minute.
	DisableAfter time.Duration

	// OnDisabled is called when an endpoint is disabled, with the time of the
	// first failure. If the process dies, it may not be called. It occupies a
	// worker. nil: not called.
	OnDisabled func(endpoint string, since time.Time)

	// Seal and Open encrypt and decrypt the stored request: its URL, its
	// headers, which may include credentials, and its body. Set both or neither.
	// If Open returns an error, the delivery becomes a dead letter. nil: the
	// request is stored in the clear. For List, the method, and the URL without
	// user, query and fragment, are always stored in the clear.
	Seal, Open func([]byte) ([]byte, error)

	// DeadLetter is called with a delivery that failed for good, as
	// delivery.Transport.DeadLetter is. If it returns an error, the dead letter
	// stays in the store. It may be called again for the same delivery if the
	// process dies, or if it continues after its context has ended, some 30 s after
	// the attempt. nil: dead letters stay in the store.
	DeadLetter func(context.Context, delivery.DeadLetter) error

	// Observe is called once for every attempt, as delivery.Transport.Observe
	// is, before its outcome is committed. ID returns the delivery's ID for the
	// context of the attempt's Request. nil: not called.
	Observe func(awsretry.Attempt)

	// OnOutcome is called with the delivery after each attempt, when the outcome
	// is committed: it is Delivered, Dead, Canceled, or Waiting for a retry. It may
	// not be called if the process dies or the connection to the store breaks, and
	// never twice for one outcome. It occupies a worker. nil: not called.
	OnOutcome func(Delivery)

	// StopTimeout is how long Run waits, once its context has ended, for the
	// attempts in progress. Then it cancels them, and the next Run repeats them.
	// 0: AttemptTimeout plus 5 s.
	StopTimeout time.Duration

	// KeepDelivered is how long delivered and canceled deliveries stay in the
	// store, the former for at least a minute. 0: 24 hours; negative: forever.
	KeepDelivered time.Duration

	// PollInterval is how often Run polls the store for deliveries to attempt.
	// PostgreSQL notifies Run of new ones at once. 0: 250 ms.
	PollInterval time.Duration

	// Logger receives River's log and this package's, in which what an operator must know,
	// such as a store that has failed for a minute and an endpoint that is disabled, has
	// the level of a warning or an error, and the rest that of debugging. nil: slog.Default
	// receives this package's.
	Logger *slog.Logger
}

const (
	defaultAttemptTimeout = 15 * time.Second
	maxAttemptTimeout     = 24 * time.Hour
	defaultWorkers        = 200
	maxWorkers            = 10_000    // River's limit
	defaultMaxBody        = 256 << 10 // of a message at Amazon SNS
	largestMaxBody        = 64 << 20  // below the limits of a jsonb value in PostgreSQL and a blob in SQLite
	defaultKeepDelivered  = 24 * time.Hour
	defaultPollInterval   = 250 * time.Millisecond
	minPollInterval       = 10 * time.Millisecond
	maxPollInterval       = time.Minute
)

// Validate returns an error that names each invalid field of c, with its value
// and what is allowed. Open returns the same error.
func (c Config) Validate() error {
	var faults []error
	fault := func(bad bool, field string, value any, allowed string) {
		if bad {
			faults = append(faults, fmt.Errorf("deliveryqueue: Config.%s is %v; it must be %s", field, value, allowed))
		}
	}
	if err := retrier.CheckBase("deliveryqueue: Config.Base", c.Base); err != nil {
		faults = append(faults, err)
	}
	fault(c.AttemptTimeout < 0 || c.AttemptTimeout > maxAttemptTimeout,
		"AttemptTimeout", c.AttemptTimeout, "above 0 and at most 24h0m0s, or 0 for 15s")
	fault(c.Workers < 0 || c.Workers > maxWorkers, "Workers", c.Workers, "1 to 10000, or 0 for 200")
	fault(c.PerEndpoint < 0 || c.PerEndpoint > maxWorkers, "PerEndpoint", c.PerEndpoint, "1 to 10000, or 0 for an equal part")
	fault(c.MaxRetryAfter > longestHold, "MaxRetryAfter", c.MaxRetryAfter, "at most 1h0m0s, 0 for that, or negative")
	fault(c.DisableAfter < 0, "DisableAfter", c.DisableAfter, "above 0, or 0 for never")
	fault(c.MaxBody < 0 || c.MaxBody > largestMaxBody, "MaxBody", c.MaxBody, "1 to 67108864 bytes, or 0 for 262144")
	fault(c.Seal == nil && c.Open != nil, "Seal", "nil and Config.Open is not", "set, or both nil")
	fault(c.Seal != nil && c.Open == nil, "Open", "nil and Config.Seal is not", "set, or both nil")
	fault(c.StopTimeout < 0, "StopTimeout", c.StopTimeout, "above 0, or 0 for AttemptTimeout and 5s more")
	fault(c.PollInterval != 0 && (c.PollInterval < minPollInterval || c.PollInterval > maxPollInterval),
		"PollInterval", c.PollInterval, "10ms to 1m0s, or 0 for 250ms")
	return errors.Join(faults...)
}

// withDefaults returns c with every default set.
func (c Config) withDefaults() Config {
	if c.Base == nil {
		c.Base = webhook.PublicOnly()
	}
	c.AttemptTimeout = cmp.Or(c.AttemptTimeout, defaultAttemptTimeout)
	c.Workers = cmp.Or(c.Workers, defaultWorkers)
	c.MaxBody = cmp.Or(c.MaxBody, defaultMaxBody)
	c.StopTimeout = cmp.Or(c.StopTimeout, c.AttemptTimeout+5*time.Second)
	c.KeepDelivered = cmp.Or(c.KeepDelivered, defaultKeepDelivered)
	c.PollInterval = cmp.Or(c.PollInterval, defaultPollInterval)
	c.MaxRetryAfter = cmp.Or(c.MaxRetryAfter, longestHold)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}
