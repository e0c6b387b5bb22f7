package deliveryqueue

import (
	"context"
	"log/slog"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

// The names in River's tables. They must not change, because stored rows have
// them.
const (
	queueName = "awsretry_deliveries"
	kind      = "awsretry_delivery"
)

// jobs hides River's type parameter, the driver's transaction, from Queue.
type jobs interface {
	cancel(ctx context.Context, id int64) (*rivertype.JobRow, error)
	runner(config *river.Config, f *fetcher) (runner, error)
	migrateRiver(ctx context.Context) error
}

// A runner is a river.Client that runs jobs.
type runner interface {
	Start(ctx context.Context) error // until ctx ends
	Stopped() <-chan struct{}
}

type riverJobs[Tx any] struct {
	driver riverdriver.Driver[Tx]
	client *river.Client[Tx] // only cancels
	schema string
	logger *slog.Logger
}

func newJobs[Tx any](driver riverdriver.Driver[Tx], schema string, logger *slog.Logger) (jobs, error) {
	client, err := river.NewClient(driver, &river.Config{Schema: schema, Logger: logger})
	if err != nil {
		return nil, err
	}
	return &riverJobs[Tx]{driver, client, schema, logger}, nil
}

func (j *riverJobs[Tx]) cancel(ctx context.Context, id int64) (*rivertype.JobRow, error) {
	job, err := j.client.JobGet(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case job.Queue != queueName: // another client's, in the same tables
		return nil, rivertype.ErrNotFound
	}
	return j.client.JobCancel(ctx, id)
}

func (j *riverJobs[Tx]) runner(config *river.Config, f *fetcher) (runner, error) {
	config.Schema = j.schema
	return river.NewClient[Tx](fairDriver[Tx]{j.driver, f}, config)
}

func (j *riverJobs[Tx]) migrateRiver(ctx context.Context) error {
	migrator, err := rivermigrate.New(j.driver, &rivermigrate.Config{Schema: j.schema, Logger: j.logger})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}
