package deliveryqueue

import (
	"context"

	"github.com/riverqueue/river/riverdriver"
)

// A fairDriver is a River driver whose queries for jobs are those of a fetcher.
type fairDriver[Tx any] struct {
	riverdriver.Driver[Tx]
	*fetcher
}

func (d fairDriver[Tx]) GetExecutor() riverdriver.Executor {
	return fairExecutor{d.Driver.GetExecutor(), d.fetcher}
}

func (d fairDriver[Tx]) GetListener(params *riverdriver.GetListenenerParams) riverdriver.Listener {
	return listener{d.Driver.GetListener(params), d.fetcher}
}

type fairExecutor struct {
	riverdriver.Executor
	*fetcher
}

func (e fairExecutor) Begin(ctx context.Context) (riverdriver.ExecutorTx, error) {
	tx, err := e.Executor.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return unscheduled{tx}, nil
}

type unscheduled struct{ riverdriver.ExecutorTx }

// JobSchedule does nothing: the leading process would call it with the time of its
// own clock, and sweep does the same by the store's clock.
func (unscheduled) JobSchedule(
	context.Context, *riverdriver.JobScheduleParams,
) ([]*riverdriver.JobScheduleResult, error) {
	return nil, nil
}

func (e fairExecutor) JobGetAvailable(
	ctx context.Context, params *riverdriver.JobGetAvailableParams,
) (*riverdriver.JobGetAvailableResult, error) {
	jobs, err := e.fetch(ctx, params.ClientID)
	return &riverdriver.JobGetAvailableResult{Jobs: jobs}, err
}

// A listener passes PostgreSQL's notifications of new jobs to the fetcher.
type listener struct {
	riverdriver.Listener
	*fetcher
}

func (l listener) WaitForNotification(ctx context.Context) (*riverdriver.Notification, error) {
	n, err := l.Listener.WaitForNotification(ctx)
	l.asked.give()
	return n, err
}
