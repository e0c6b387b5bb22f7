package deliveryqueue

import (
	"context"
	"errors"
	"fmt"
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
	// insert inserts jobs in tx, a transaction of the store, or in its own if tx is
	// nil.
	insert(ctx context.Context, tx any, all []river.InsertManyParams) ([]*rivertype.JobInsertResult, error)
	cancel(ctx context.Context, id int64) (*rivertype.JobRow, error)
	runner(config *river.Config, f *fetcher) (runner, error)
	migrateRiver(ctx context.Context) (newest int, err error)
}

// A runner is a river.Client that runs jobs.
type runner interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	StopAndCancel(ctx context.Context) error
}

type riverJobs[Tx any] struct {
	driver riverdriver.Driver[Tx]
	client *river.Client[Tx] // only inserts and cancels
	logger *slog.Logger
}

func newJobs[Tx any](driver riverdriver.Driver[Tx], logger *slog.Logger) (jobs, error) {
	client, err := river.NewClient(driver, &river.Config{Logger: logger})
	if err != nil {
		return nil, err
	}
	return &riverJobs[Tx]{driver, client, logger}, nil
}

func (j *riverJobs[Tx]) insert(
	ctx context.Context, tx any, all []river.InsertManyParams,
) ([]*rivertype.JobInsertResult, error) {
	if tx == nil {
		return j.client.InsertMany(ctx, all)
	}
	own, ok := tx.(Tx)
	if !ok {
		return nil, fmt.Errorf("the transaction is a %T, which is not one of the store's", tx)
	}
	return j.client.InsertManyTx(ctx, own, all)
}

func (j *riverJobs[Tx]) cancel(ctx context.Context, id int64) (*rivertype.JobRow, error) {
	return j.client.JobCancel(ctx, id)
}

func (j *riverJobs[Tx]) runner(config *river.Config, f *fetcher) (runner, error) {
	return river.NewClient[Tx](fairDriver[Tx]{j.driver, f}, config)
}

// migrateRiver updates River's tables, and returns the newest version that this
// River knows.
func (j *riverJobs[Tx]) migrateRiver(ctx context.Context) (newest int, err error) {
	migrator, err := rivermigrate.New(j.driver, &rivermigrate.Config{Logger: j.logger})
	if err != nil {
		return 0, err
	}
	for _, m := range migrator.AllVersions() {
		newest = max(newest, m.Version)
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return newest, err
}

// A newerError is the error of tables that a newer version has updated.
type newerError struct {
	whose          string
	version, known int
}

func (e *newerError) Error() string {
	return fmt.Sprintf("the tables of %s have version %d; this program knows versions up to %d, so update it",
		e.whose, e.version, e.known)
}

func isNewer(err error) bool { return errors.As(err, new(*newerError)) }
