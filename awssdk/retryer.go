// Package awssdk retries the requests of the AWS SDK for Go v2 by the rules of
// package awsretry, whose token buckets, rate limiter and delays replace those
// of the SDK. The SDK still makes, signs and sends the requests.
//
//	retryer, err := awssdk.NewRetryer(awssdk.Config{Mode: awsretry.Adaptive})
//	if err != nil {
//		return err
//	}
//	cfg, err := config.LoadDefaultConfig(ctx)
//	if err != nil {
//		return err
//	}
//	retryer.Apply(&cfg)
//	client := dynamodb.NewFromConfig(cfg)
package awssdk

import (
	"context"
	"iter"
	"net/http"
	"sync"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/invalid"
	"github.com/aws/aws-sdk-go-v2/aws"
)

// A Config has the settings of a Retryer. Each field has the same meaning and
// default as the field of that name in [awsretry.Transport], except for Revision.
// The zero Config is standard mode.
type Config struct {
	// Mode is the set of retry rules. Empty means awsretry.Standard.
	Mode awsretry.Mode

	// Revision is the revision of these rules. awsretry.DefaultRevision, the
	// zero value, means awsretry.Revision2026, that of the SDK.
	Revision awsretry.Revision

	// MaxAttempts is how often a request may be sent, the first attempt
	// included. 0 means the mode's default: 3, and 4 in Legacy mode and for
	// DynamoDB in Revision2026. 1 means no retry. The SDK's own RetryMaxAttempts
	// takes precedence where it is set, on a client or an operation.
	MaxAttempts int

	// Policy classifies the outcome of an attempt by the Response with its Code,
	// or by the Err if there is no response. Nil means awsretry.DefaultPolicy.
	// Its class is ignored for an attempt without an error, for an error that
	// itself reports whether it is retryable, such as that of a wrong clock, and for
	// one that did not come from the network. A 2xx whose body breaks off is
	// permanent too, unless the SDK's own retryer retries it, because the service
	// may have executed the request.
	Policy awsretry.Policy

	// Backoff computes the delay before each retry. Nil means the backoff of
	// the mode and revision.
	Backoff awsretry.Backoff

	// MaxRetryAfter is the longest delay that a Retry-After header may ask for.
	// If it asks for more, there is no retry. 0 means 1 minute. If negative,
	// Retry-After is ignored.
	MaxRetryAfter time.Duration

	// RetryAfterSpread is the longest time that is added to a delay that
	// Retry-After asks for. Each retry adds another part of it. 0 means a quarter of that delay, at most 5 s. If
	// negative, nothing is added.
	RetryAfterSpread time.Duration

	// ShareRetryAfter makes a Retry-After delay every attempt of its partition.
	ShareRetryAfter bool

	// Quota configures the retry token bucket of each partition.
	Quota awsretry.QuotaConfig

	// RateLimit configures the rate limiter of Adaptive mode. Its Pacing is
	// awsretry.CubicPacing or awsretry.ScaledPacing.
	RateLimit awsretry.RateLimitConfig

	// Partition names the partition of a call. Each partition has its own retry
	// token bucket and rate limiter. ctx has the SDK's names of the
	// service, the operation and the region. Nil means what AWS throttles by: the
	// service, the region, the host of the client's BaseEndpoint if it has one, and
	// a hash of the account of the credentials, such as "DynamoDB us-east-1
	// 12ab34cd56ef". The account is missing until the first request of a client is
	// signed. [awsretry.WithPartition] takes precedence. To share the buckets
	// between services, return one name for all of them.
	//
	// A client without a service, such as that of the EC2 metadata service, always has
	// the partition "no service", without a rate limiter.
	Partition func(ctx context.Context) string

	// MaxPartitions limits how many partitions are kept. 0 means 1024.
	MaxPartitions int

	// Shared lets many processes share the buckets; see package fleet. Nil means
	// that this process has its own.
	Shared awsretry.Shared

	// LongPoll reports whether the caller repeats a call in its own loop.
	// If the retry token bucket refuses the retry of such a call, the call
	// sleeps the delay before it returns. Nil means no call in Classic, and in
	// Revision2026 SQS ReceiveMessage, Step Functions GetActivityTask, and SWF
	// PollForActivityTask and PollForDecisionTask.
	LongPoll func(ctx context.Context) bool

	// Observe is called once for every attempt, after the decision about a
	// retry and before the delay, for clients that Apply has configured. The
	// Response has no body, and the Request has the headers as they were before
	// it was signed. A delay that retry.AddWithMaxBackoffDelay replaces is not
	// the one in the record. Nil means no observer.
	Observe func(awsretry.Attempt)
}

// A Retryer is an [aws.RetryerV2]. Use one Retryer for many clients: it keeps
// the token buckets for as long as it lives. It is safe for concurrent use.
//
// Apply makes the clients of an aws.Config use all of it. A Retryer that is
// only set as aws.Config.Retryer, or as the Retryer of a client, works too, but
// that interface does not show which attempts belong to one call. Then
//
//   - nothing is observed,
//   - the default partition has neither the account nor the BaseEndpoint, and a call
//     to the EC2 metadata service or for a container's credentials within
//     another call is taken for one of that service,
//   - DynamoDB does not get the fourth attempt of Revision2026, nor its shorter
//     delays after an error without a response,
//   - awsretry.WithPolicy and awsretry.WithMaxAttempts make no difference, except
//     that 1 means no retry, and awsretry.WithBackoff is not used after an error
//     without a response,
//   - the deadline is compared with the delay of a first retry, a Backoff does
//     not see the previous delay, and errors say "1 attempt",
//   - the SDK's retry loop sleeps before it ends a long-polling call, also in
//     Classic, if the client's module marks the operation as one, and
//   - Quota.InitialCost is drawn by each attempt, and the tokens of a retry whose
//     delay the context ends are lost.
//
// awsretry.WithAttemptTimeout and awsretry.AttemptNumber are for Transports.
// The options of a context also apply to the calls that the SDK makes with it, such
// as those for credentials, except for awsretry.WithPartition.
type Retryer struct {
	transport *awsretry.Transport // its settings and partitions; it sends nothing
	unpaced   *awsretry.Transport // the same for the partition noService, without a rate limiter
	partition func(ctx context.Context, endpoint, account string) string
	accounts  *accounts
	policy    awsretry.Policy
	attempts  int      // the default of most services, or Config.MaxAttempts
	failed    sync.Map // the *attemptError of the calls in progress, by their errors; see identify
}

var _ aws.RetryerV2 = (*Retryer)(nil)

// NewRetryer returns a Retryer. If c is not valid, it returns an error that
// names each such field, its value and what is allowed.
func NewRetryer(c Config) (*Retryer, error) {
	if c.Revision == awsretry.DefaultRevision {
		c.Revision = awsretry.Revision2026
	}
	t, unpaced := c.transport(), c
	unpaced.RateLimit, unpaced.ShareRetryAfter, unpaced.Shared = awsretry.RateLimitConfig{}, false, nil
	if unpaced.Mode == awsretry.Adaptive {
		unpaced.Mode = awsretry.Standard
	}
	if err := t.Validate(); err != nil {
		return nil, invalid.Within("awssdk: Config.", err)
	}
	r := &Retryer{transport: t, unpaced: unpaced.transport(), policy: c.Policy, partition: defaultPartition, accounts: new(accounts)}
	if c.Partition != nil {
		r.partition = func(ctx context.Context, _, _ string) string { return c.Partition(ctx) }
	}
	if r.policy == nil {
		r.policy = awsretry.DefaultPolicy
	}
	var err error
	if r.attempts, err = c.attempts(); err != nil {
		return nil, err
	}
	return r, nil
}

// transport returns a Transport with these settings.
func (c Config) transport() *awsretry.Transport {
	t := &awsretry.Transport{
		Mode:             c.Mode,
		Revision:         c.Revision,
		MaxAttempts:      c.MaxAttempts,
		Policy:           c.Policy,
		Backoff:          c.Backoff,
		MaxRetryAfter:    c.MaxRetryAfter,
		RetryAfterSpread: c.RetryAfterSpread,
		ShareRetryAfter:  c.ShareRetryAfter,
		Quota:            c.Quota,
		RateLimit:        c.RateLimit,
		Partition:        func(req *http.Request) string { return req.Context().Value(partitionKey{}).(string) },
		MaxPartitions:    c.MaxPartitions,
		Observe:          c.Observe,
		Shared:           c.Shared,
	}
	if c.LongPoll != nil {
		t.LongPoll = func(req *http.Request) bool { return c.LongPoll(req.Context()) }
	}
	return t
}

// attempts returns how often a request to most services may be sent.
func (c Config) attempts() (int, error) {
	t := &awsretry.Transport{Mode: c.Mode, Revision: c.Revision, MaxAttempts: c.MaxAttempts}
	loop, err := newLoop(t, describe(context.Background(), "", "", nil), false)
	if err != nil {
		return 0, err
	}
	defer loop.End()
	return loop.LimitAttempts(0), nil
}

// State returns the state of the named partition, and whether there is one.
func (r *Retryer) State(partition string) (awsretry.State, bool) {
	if partition == noService {
		return r.unpaced.State(partition)
	}
	return r.transport.State(partition)
}

// Partitions yields the name and the state of every partition, the most
// recently used first. That of the clients without a service is the last one.
func (r *Retryer) Partitions() iter.Seq2[string, awsretry.State] {
	return func(yield func(string, awsretry.State) bool) {
		for _, t := range []*awsretry.Transport{r.transport, r.unpaced} {
			for name, state := range t.Partitions() {
				if !yield(name, state) {
					return
				}
			}
		}
	}
}
