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
	"example.com/awsretry/internal/retrier"
)

// A Config is the configuration of a Queue. The zero value is ready to use.
type Config struct {
	Base    http.RoundTripper // sends each attempt; nil: awsretry's shared pooled transport
	Workers int               // attempts that Run makes at the same time; 0: 10
	MaxBody int64             // the longest body that Enqueue takes, in bytes; 0: 256 KiB, as at Amazon SNS

	// AttemptTimeout bounds each attempt, up to the end of its response. It also
	// determines when the process of an attempt counts as dead, so use one value
	// in every process that runs the store: a process with a shorter one repeats
	// the longer attempts of the others. 0: 15 s, as at Amazon SNS.
	AttemptTimeout time.Duration

	// Seal and Open encrypt and decrypt the stored request: its URL, its
	// headers, which may include credentials, and its body. Set both or neither.
	// If Open returns an error, the delivery becomes a dead letter. nil: the
	// request is stored in the clear. For List, the method, and the URL without
	// user, query and fragment, are always stored in the clear.
	Seal, Open func([]byte) ([]byte, error)

	// DeadLetter is called with a delivery that failed for good, as
	// delivery.Transport.DeadLetter is, such as the Put of a letters.Dir. If it
	// returns an error, the dead letter stays in the store. It may be called
	// again for the same delivery if the process dies. nil: dead letters stay in
	// the store.
	DeadLetter func(context.Context, delivery.DeadLetter) error

	// Observe is called once for every attempt, as delivery.Transport.Observe
	// is. nil: not called.
	Observe func(awsretry.Attempt)

	// StopTimeout is how long Run waits, once its context has ended, for the
	// attempts in progress. Then it cancels them, and the next Run repeats them.
	// 0: AttemptTimeout plus 5 s.
	StopTimeout time.Duration

	// KeepDelivered is how long delivered and canceled deliveries stay in the
	// store. 0: 24 hours; negative: forever.
	KeepDelivered time.Duration

	// PollInterval is how often Run polls the store for deliveries to attempt.
	// PostgreSQL notifies Run of new ones at once. 0: 250 ms.
	PollInterval time.Duration

	// Logger receives River's log and this package's warnings. nil: nothing is
	// logged.
	Logger *slog.Logger
}

const (
	defaultAttemptTimeout = 15 * time.Second
	maxAttemptTimeout     = 24 * time.Hour
	defaultWorkers        = 10
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
	fault(c.Workers < 0 || c.Workers > maxWorkers, "Workers", c.Workers, "1 to 10000, or 0 for 10")
	fault(c.MaxBody < 0 || c.MaxBody > largestMaxBody, "MaxBody", c.MaxBody, "1 to 67108864 bytes, or 0 for 262144")
	fault(c.Seal == nil && c.Open != nil, "Seal", "nil and Config.Open is not", "set, or both nil")
	fault(c.Seal != nil && c.Open == nil, "Open", "nil and Config.Seal is not", "set, or both nil")
	fault(c.StopTimeout < 0, "StopTimeout", c.StopTimeout, "above 0, or 0 for AttemptTimeout and 5s more")
	fault(c.PollInterval != 0 && (c.PollInterval < minPollInterval || c.PollInterval > maxPollInterval),
		"PollInterval", c.PollInterval, "10ms to 1m0s, or 0 for 250ms")
	return errors.Join(faults...)
}

// withDefaults returns c with every default filled in.
func (c Config) withDefaults() Config {
	c.AttemptTimeout = cmp.Or(c.AttemptTimeout, defaultAttemptTimeout)
	c.Workers = cmp.Or(c.Workers, defaultWorkers)
	c.MaxBody = cmp.Or(c.MaxBody, defaultMaxBody)
	c.StopTimeout = cmp.Or(c.StopTimeout, c.AttemptTimeout+5*time.Second)
	c.KeepDelivered = cmp.Or(c.KeepDelivered, defaultKeepDelivered)
	c.PollInterval = cmp.Or(c.PollInterval, defaultPollInterval)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
