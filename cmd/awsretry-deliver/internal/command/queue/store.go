package queue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/deliveryqueue"
	"example.com/awsretry/internal/redact"
)

// openTimeout is how long the store may take to open: another process may have
// locked it, and a host may not respond.
const openTimeout = 30 * time.Second

// open opens the store. Without create, a file must exist, because its name may be
// misspelled.
func (c *command) open(ctx context.Context, create bool, config deliveryqueue.Config) (*deliveryqueue.Queue, error) {
	if err := checkStore(c.db.Value, create); err != nil {
		return nil, err
	}
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	q, err := deliveryqueue.Open(opening, c.db.Value, config)
	switch {
	case err == nil:
		return q, nil
	case ctx.Err() != nil:
		return nil, cli.Failed(context.Cause(ctx))
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("it did not open within %v", openTimeout)
	}
	return nil, c.storeError(err)
}

// inStore calls f with the store.
func (c *command) inStore(ctx context.Context, f func(*deliveryqueue.Queue) error) error {
	q, err := c.open(ctx, false, deliveryqueue.Config{})
	if err != nil {
		return err
	}
	defer q.Close()
	return f(q)
}

// done prints what has been done, on a line with a mark.
func (c *command) done(text string) error {
	_, err := fmt.Fprintf(c.Out, "%s %s\n", term.NewPalette(c.Streams, c.Out).Good("✓"), text)
	if err != nil {
		return cli.Failed(fmt.Errorf("%s, but that could not be printed: %w", text, err))
	}
	return nil
}

// checkStore returns an error for text that is not the name of a store. The error
// shows a URL or a connection string without its password.
func checkStore(name string, create bool) error {
	scheme, _, isURL := strings.Cut(name, "://")
	lower := strings.ToLower(name)
	switch {
	case isPostgres(name):
		return nil
	case strings.HasPrefix(lower, "postgres:"), strings.HasPrefix(lower, "postgresql:"):
		return errors.New("--db is not the URL of a PostgreSQL database; it must begin with postgres://")
	case isURL:
		return fmt.Errorf("--db begins with %q; it must be an SQLite file, or a URL that begins with postgres://",
			term.OneLine(scheme)+"://")
	case strings.Contains(name, "password=") || strings.Contains(name, "dbname="):
		return errors.New(
			"--db is a connection string; it must be an SQLite file, or a URL that begins with postgres://",
		)
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && create:
		return nil // a missing folder is found when the file is made
	case errors.Is(err, fs.ErrNotExist):
		return cli.Failed(fmt.Errorf("%s does not exist; the first delivery makes it", term.OneLine(name)))
	case err != nil:
		return cli.Failed(err)
	case !info.Mode().IsRegular():
		kind := "not a regular file"
		if info.IsDir() {
			kind = "a directory"
		}
		return cli.Failed(fmt.Errorf("%s is %s; --db must be an SQLite file, or the URL of a PostgreSQL database",
			term.OneLine(name), kind))
	}
	return nil
}

func isPostgres(name string) bool {
	return strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://")
}

// storeName returns the name of the store for a report, without a password.
func (c *command) storeName() string {
	if !isPostgres(c.db.Value) {
		return term.OneLine(c.db.Value)
	}
	u, err := url.Parse(c.db.Value)
	if err != nil {
		return "postgres://…"
	}
	return term.URL(u)
}

// storeError returns an error of the store on one line, with its name.
func (c *command) storeError(err error) error {
	return cli.Failed(fmt.Errorf("%s: %s", c.storeName(), storeText(err)))
}

// sqliteTexts are for the errors of SQLite that users can do something about,
// by their numbers (sqlite.org/rescode.html).
var sqliteTexts = map[int]string{
	5:  "it is locked by another process",
	8:  "it is read-only, or its folder is; the store must be writable",
	11: "it is damaged",
	13: "the disk is full",
	14: "it cannot be opened",
	26: "it is not an SQLite database",
}

func storeText(err error) string {
	var coded interface {
		error
		Code() int
	}
	if errors.As(err, &coded) {
		if text, ok := sqliteTexts[coded.Code()&0xff]; ok { // the rest says more about it
			return text
		}
	}
	return oneLine(err)
}

// oneLine returns the text of an error without repeated lines. PostgreSQL's error
// has one for each address, and for each way to connect to it.
func oneLine(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		line = flagNames.Replace(term.WithoutPackages(redact.Error(errors.New(strings.TrimSpace(line)))))
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return term.OneLine(strings.ReplaceAll(strings.Join(lines, "; "), ":; ", ": "))
}

// flagNames has the flags for the fields that errors name.
var flagNames = strings.NewReplacer("Config.StopTimeout", "--stop-timeout")
