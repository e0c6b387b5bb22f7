package queue

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/deliveryqueue"
	"example.com/awsretry/deliveryqueue/webhook"
)

// workFlags are the flags of the command work.
type workFlags struct {
	workers        cli.Number
	perEndpoint    cli.Number
	attemptTimeout cli.Period
	disableAfter   cli.Period
	retryTimeouts  bool
	stopTimeout    cli.Period
	untilEmpty     bool
}

// The defaults of package deliveryqueue, which the report names.
const (
	defaultWorkers        = 200
	defaultAttemptTimeout = 15 * time.Second
	defaultStop           = 5 * time.Second // in addition to the time of an attempt
)

// config returns the configuration. It sets the defaults that the report names.
func (f *workFlags) config() deliveryqueue.Config {
	config := deliveryqueue.Config{
		Workers:        f.workers.Value,
		PerEndpoint:    f.perEndpoint.Value,
		AttemptTimeout: time.Duration(f.attemptTimeout),
		DisableAfter:   time.Duration(f.disableAfter),
		StopTimeout:    time.Duration(f.stopTimeout),
	}
	if f.retryTimeouts {
		config.RetryStatus = webhook.RetryStatus
	}
	if config.Workers == 0 {
		config.Workers = defaultWorkers
	}
	if config.AttemptTimeout == 0 {
		config.AttemptTimeout = defaultAttemptTimeout
	}
	if config.StopTimeout == 0 {
		config.StopTimeout = config.AttemptTimeout + defaultStop
	}
	return config
}

// Why the work ends, apart from a signal.
var (
	errEmpty = errors.New("no delivery waits")
	errEnded = errors.New("the work ended on its own")
)

// countInterval is how often the deliveries are counted, for --until-empty and
// for the progress bar.
const countInterval = 500 * time.Millisecond

// countRest is the time until the deliveries are counted again, as a multiple of
// the time that counting them took.
const countRest = 20

// countTimeout is how long counting what is left may take.
const countTimeout = 5 * time.Second

func (c *command) runWork(ctx context.Context, _ []string) error {
	// SIGPIPE or SIGHUP would end the process in the middle of attempts, which
	// would then be repeated. SIGPIPE cannot end ctx, because connections raise it,
	// too.
	defer cli.IgnorePipe()()
	ctx, stopHangup := cli.NotifyHangup(ctx)
	defer stopHangup()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	config := c.work.config()
	report := newReport(c, config, stop)
	config.Observe, config.Logger = report.attempt, report.logger()
	if c.private {
		config.Base = everywhere()
	}
	q, err := c.open(ctx, false, config)
	if err != nil {
		return err
	}
	defer q.Close()
	before, err := q.Stats(ctx)
	if err != nil {
		return c.listError(ctx, err)
	}
	report.begin(before)
	var others sync.WaitGroup
	others.Go(func() { c.count(ctx, q, report, stop) })
	others.Go(func() {
		<-ctx.Done()
		report.stopping(context.Cause(ctx))
	})
	err = q.Run(ctx)
	stop(errEnded) // unless something else has
	others.Wait()
	after, countErr := c.left(ctx, q)
	return report.end(context.Cause(ctx), before, after, errors.Join(err, countErr))
}

// everywhere returns a transport that connects to any address, or to the proxy of the
// environment.
func everywhere() *http.Transport {
	t := webhook.PublicOnly(netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0))
	t.Proxy = http.ProxyFromEnvironment
	return t
}

// left counts the deliveries after the work. It returns nil if that fails.
func (c *command) left(ctx context.Context, q *deliveryqueue.Queue) (*deliveryqueue.Stats, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
	defer cancel()
	s, err := q.Stats(ctx)
	if err != nil {
		return nil, err
	}
	return &s, nil
}

// count counts the deliveries for the bar until ctx ends. With --until-empty, it
// stops the work when none are left.
func (c *command) count(
	ctx context.Context, q *deliveryqueue.Queue, report *report, stop context.CancelCauseFunc,
) {
	if !c.work.untilEmpty && report.Bar == nil {
		return
	}
	ticker := time.NewTicker(countInterval)
	defer ticker.Stop()
	var next time.Time // when they are counted again
	for {
		var err error
		if c.work.untilEmpty {
			var empty bool
			if empty, err = q.Empty(ctx); empty {
				stop(errEmpty)
				return
			}
		}
		if began := time.Now(); err == nil && report.Bar != nil && !began.Before(next) {
			var s deliveryqueue.Stats
			if s, err = q.Stats(ctx); err == nil {
				report.progress(s)
			}
			next = time.Now().Add(countRest * time.Since(began)) // there may be millions
		}
		if err != nil && ctx.Err() == nil {
			report.warn(storeText(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
