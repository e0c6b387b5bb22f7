// Package fleet lets many processes share the buckets of their Transports
// through Valkey or Redis: the retry token bucket, the send rate of adaptive
// mode, and a Retry-After that is in force.
//
//	connection := fleet.Dial(valkey.ClientOption{InitAddress: []string{"127.0.0.1:6379"}, ForceSingleClient: true})
//	defer connection.Close()
//	shared, err := fleet.New(connection, fleet.Config{Prefix: "orders"})
//	if err != nil {
//		return err
//	}
//	defer shared.Close()
//	transport := &awsretry.Transport{Mode: awsretry.Adaptive, Shared: shared}
//
// No request waits for the store. Each process has a lease for each partition:
// retry tokens, and a share of the common rate. It renews the lease in the
// background. While the store is unavailable, each process continues alone, at
// its share of the last rate.
package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"example.com/awsretry"
	"example.com/awsretry/internal/admission"
	"example.com/awsretry/internal/invalid"
)

const (
	defaultLease  = 400 * time.Millisecond
	defaultExpiry = time.Hour

	leastLease   = 50 * time.Millisecond
	longestLease = time.Minute

	leastMaxRate = 0.1
	mostMaxRate  = 1e6
	variation    = 20 * time.Millisecond // between the times that requests take to reach the service
	safePart     = 100.0                 // see Config.MaxRate

	longestExpiry = 7 * 24 * time.Hour
	mostCapacity  = 1_000_000_000 // retry tokens

	closeTimeout = time.Second // a longer Close returns an error

	slowRenewals = 3 // in a row

	joinInterval  = 10 * time.Millisecond // between the first renewals of many new members
	joinBurst     = 100                   // of them at once
	errorInterval = time.Minute           // between calls of OnError with the same text
	mostErrors    = 20                    // texts in that time
)

// A Client runs scripts in a store. It must be safe for concurrent use.
type Client interface {
	// Eval runs a Lua script, as the commands EVAL and EVALSHA do, and returns
	// the strings of the array that the script returns. It must return when ctx
	// ends, because the process does not renew its lease until then.
	Eval(ctx context.Context, script string, keys, args []string) ([]string, error)
}

// A Config configures a [Fleet]. Only Prefix must be set.
type Config struct {
	// Prefix begins every key, PREFIX:{PARTITION}. Processes with the same prefix
	// share their partitions. Use one prefix for the processes that share a
	// service's limits, for example because they call it with the same account. It
	// must not be empty or contain { or }.
	Prefix string

	// Lease is how long a process may use its share of the rate without
	// renewing it. Processes renew about twice per lease. It must be from 50 ms
	// to a minute, and more than twice the store's response time, or with MaxRate
	// four times: otherwise a process sends less than its share, and calls OnError.
	// 0 means 400 ms.
	//
	// Use the same Lease, Transport.Quota and Transport.RateLimit in every
	// process that shares a partition, except for FailFast, MaxWait, Limits and
	// Cost. A process that differs gets an error and works alone, until a minute
	// (or 20 leases, if that is longer) after the last renewal of the others.
	Lease time.Duration

	// MaxRate limits how many requests all processes together send in any second,
	// even if the service accepts more. It needs Adaptive mode, which may send
	// less, and a MaxRate in all processes, of which the lowest counts. It holds if
	// all requests take equally long to reach the service, give or take 20 ms, and
	// while the store loses nothing. A process without a lease sends at most its
	// part of MaxRate. Before its first lease it sends a hundredth, but if the
	// store fails at least a request in 8 s, in two leases or in 3/MaxRate seconds,
	// whichever is longest. 0 means that only the service's throttling limits the
	// rate; otherwise it must be from 0.1 to a million.
	MaxRate float64

	// Expiry is how long the store keeps a partition that no process uses. If
	// nothing was throttled and no retry token is missing, it is a minute at most,
	// or 20 leases if that is longer. It must be longer than Lease and than a
	// second, and at most seven days. 0 means an hour, or 10 leases if that is
	// longer.
	Expiry time.Duration

	// OnError is called when a renewal fails, or the third in a row takes too long for
	// Lease, at most once a minute for errors whose texts differ only in digits,
	// whatever the partition. Nil ignores the error; Transport.State shows
	// whether there is a lease. OnRecovered is called when, after a call of OnError,
	// no renewal fails or is slow any longer. Calls may be concurrent, and a
	// partition's lease is not renewed until they return. Panics in them are
	// recovered.
	OnError     func(partition string, err error)
	OnRecovered func()

	// OnRenewal is called after each renewal, with how long it took and its error
	// or nil. The RecordRenewal of an otelretry.Recorder is such a function. Nil
	// means no observer. The rules of OnError for calls and panics apply.
	OnRenewal func(partition string, took time.Duration, err error)
}

// A Fleet is an awsretry.Shared that keeps the buckets in a store. If several
// Transports use one Fleet, each of them has its own lease and counts as a
// member. Close a Fleet after use.
type Fleet struct {
	client   Client
	config   Config
	schedule schedule
	id       string
	started  time.Time

	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex // guards the fields below, and starting members
	closed   bool
	joined   int                      // number of members so far
	admitted time.Duration            // from started; all admissions up to this time are used
	reported map[string]time.Duration // from an error's text without digits to the time of the call of OnError since started
	troubled int                      // members whose last renewal failed, or whose store is slow
	told     bool                     // OnError was called since OnRecovered
	members  sync.WaitGroup
}

// New returns a Fleet, or an error that names each invalid field of c, its value
// and what is allowed. It does not connect to the store: processes work alone
// until the store is available.
func New(client Client, c Config) (*Fleet, error) {
	if client == nil {
		return nil, errors.New("fleet: the client is nil; it must be a Client, such as that of Valkey")
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	c.Lease = cmp.Or(c.Lease, defaultLease)
	c.Expiry = cmp.Or(c.Expiry, max(defaultExpiry, 10*c.Lease))
	f := &Fleet{client: client, config: c, schedule: random{}, id: rand.Text(), started: time.Now()}
	f.admitted, f.reported = -joinBurst*joinInterval, make(map[string]time.Duration)
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f, nil
}

var _ awsretry.Shared = (*Fleet)(nil)

// Validate returns an error if f is not from [New], or if a Transport in that mode
// cannot keep its MaxRate.
func (f *Fleet) Validate(mode awsretry.Mode) error {
	switch {
	case f == nil || f.cancel == nil:
		return errors.New("fleet: the Fleet is nil or a zero one; New must make it")
	case f.config.MaxRate > 0 && mode != awsretry.Adaptive:
		return fmt.Errorf("fleet: Config.MaxRate is %g, but Transport.Mode is %v; it must be Adaptive", f.config.MaxRate, mode)
	}
	return nil
}

func (c Config) validate() error {
	return invalid.Within("fleet: Config.", errors.Join(
		invalid.Check(c.Lease == 0 || c.Lease >= leastLease && c.Lease <= longestLease, "Lease", c.Lease,
			"from %v to %v, or 0 for %v", leastLease, longestLease, defaultLease),
		invalid.Check(c.MaxRate == 0 || c.MaxRate >= leastMaxRate && c.MaxRate <= mostMaxRate, "MaxRate", c.MaxRate,
			"from %g to %g, or 0 for none", leastMaxRate, mostMaxRate),
		invalid.Check(c.Expiry == 0 || c.Expiry > max(c.Lease, time.Second) && c.Expiry <= longestExpiry, "Expiry", c.Expiry,
			"above a second and above Lease, and at most %v, or 0 for %v", longestExpiry, defaultExpiry),
		invalid.Check(c.Prefix != "" && !strings.ContainsAny(c.Prefix, "{}"), "Prefix", strconv.Quote(c.Prefix),
			"one or more characters other than { and }"),
	))
}

// Join implements [awsretry.Shared].
func (f *Fleet) Join(share *admission.Share) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.Validate(awsretry.Adaptive) != nil {
		return
	}
	f.joined++
	m := newMember(f, share, fmt.Sprintf("%s.%d", f.id, f.joined))
	if m.capacity > mostCapacity {
		f.members.Go(func() {
			f.report(share.Partition(), fmt.Errorf("Quota.Capacity is %d; it must be at most %d to be shared",
				m.capacity, mostCapacity))
		})
		return
	}
	f.members.Go(m.run)
}

// FirstRate implements [awsretry.Shared].
func (f *Fleet) FirstRate() float64 {
	if f.Validate(awsretry.Adaptive) != nil {
		return 0
	}
	return f.config.MaxRate / safePart
}

// rateWithoutStore is the rate of a process that has never reached the store. It is
// FirstRate, but no request waits for ever.
func (f *Fleet) rateWithoutStore() float64 {
	return max(f.FirstRate(), min(f.config.MaxRate/3, 1/max(8, 2*f.config.Lease.Seconds())))
}

// admits reports whether one more member may renew for the first time.
func (f *Fleet) admits() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Since(f.started)
	next := max(f.admitted, now-joinBurst*joinInterval) + joinInterval
	if next > now {
		return false
	}
	f.admitted = next
	return true
}

// key returns the key of a partition.
func (f *Fleet) key(partition string) string { return f.config.Prefix + ":{" + partition + "}" }

// report calls OnError, unless it was recently called with a similar error.
func (f *Fleet) report(partition string, err error) {
	if f.config.OnError == nil {
		return
	}
	now, kind := time.Since(f.started), strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) { // such as those of a port
			return -1
		}
		return r
	}, err.Error())
	f.mu.Lock()
	maps.DeleteFunc(f.reported, func(_ string, at time.Duration) bool { return now-at >= errorInterval })
	_, known := f.reported[kind]
	tell := !known && len(f.reported) < mostErrors
	if tell {
		f.reported[kind], f.told = now, true
	}
	f.mu.Unlock()
	if tell {
		defer func() { _ = recover() }() // it must not end the process
		f.config.OnError(partition, shown(fmt.Errorf("fleet: %s: %w", f.key(partition), err)))
	}
}

// renewed calls OnRenewal.
func (f *Fleet) renewed(partition string, took time.Duration, err error) {
	if f.config.OnRenewal != nil {
		defer func() { _ = recover() }()
		f.config.OnRenewal(partition, took, err)
	}
}

// settle counts the members whose last renewal failed, or whose store is slow, and
// calls OnRecovered when there are none left.
func (f *Fleet) settle(m *member, failing bool) {
	troubled := failing || m.slow >= slowRenewals
	f.mu.Lock()
	switch {
	case troubled && !m.troubled:
		f.troubled++
	case !troubled && m.troubled:
		f.troubled--
	}
	m.failing, m.troubled = failing, troubled
	tell := f.told && f.troubled == 0 && !f.closed
	f.told = f.told && !tell
	f.mu.Unlock()
	if tell && f.config.OnRecovered != nil {
		defer func() { _ = recover() }()
		f.config.OnRecovered()
	}
}

// Close returns the leases if the store replies within half a second. The
// Transports continue alone, with the retry tokens of one retry for each
// partition. Close cancels the context of Eval, and returns an error if a call
// of Eval or OnError is still running a second later.
func (f *Fleet) Close() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	if f.cancel == nil { // a zero Fleet
		return nil
	}
	f.cancel()
	ended := make(chan struct{})
	go func() {
		f.members.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(closeTimeout):
		return fmt.Errorf("fleet: a call of Eval or Config.OnError has not returned %v after Close", closeTimeout)
	}
}
