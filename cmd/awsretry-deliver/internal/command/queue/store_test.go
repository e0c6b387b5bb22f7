package queue

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"example.com/awsretry/cmd/internal/clitest"
)

// execute changes a store as only another program would.
func execute(t *testing.T, db, statement string) {
	t.Helper()
	store := clitest.Must[*sql.DB](t)(sql.Open("sqlite", db))
	defer store.Close()
	clitest.Must[sql.Result](t)(store.ExecContext(t.Context(), statement))
}

// A store of a newer program is an error of one line for every command.
func TestStoreCannotBeUsed(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	succeed(t, db, "enqueue", "http://127.0.0.1:1/")
	execute(t, db, "INSERT INTO deliveryqueue_schema (version, minimum) VALUES (99, 98)")
	clitest.Shell{}.Transcript(t, "newer.txt", map[string]string{"DB": db}, Commands...)
}

// A coded is an error like those of the SQLite driver.
type coded int

func (c coded) Error() string { return fmt.Sprintf("no words (%d)", int(c)) }

func (c coded) Code() int { return int(c) }

func TestStoreText(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("deliveryqueue: Enqueue: %w", coded(5|2<<8)), "it is locked by another process"},
		{coded(1), "no words (1)"},
		{errors.New("failed to connect:\n\tone: refused\n\tone: refused\n\ttwo: refused"),
			"failed to connect: one: refused; two: refused"},
		{errors.New("deliveryqueue: Run: Config.StopTimeout, 1s"), "--stop-timeout, 1s"},
	} {
		if got := storeText(c.err); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// No control character of a store reaches the terminal.
func TestHostileStore(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	succeed(t, db, "enqueue", "--policy", clitest.File(t, "policy.json", atOnce), "http://127.0.0.1:1/")
	const hostile = "x\x1b[2J\u009b31m\x07\x7f"
	execute(t, db, fmt.Sprintf(`UPDATE river_job SET state = 'discarded', finalized_at = scheduled_at, metadata = json_set(
		json(metadata), '$.delivery', json_object('url', 'http://h/%[1]s', 'method', '%[1]s', 'key', '%[1]s', 'endpoint', '%[1]s'),
		'$.output', json_object('reason', '%[1]s', 'error', '%[1]s', 'last', json_array(
		json_object('body', '%[1]s', 'status', 200), json_object('error', '%[1]s'))))`, hostile))
	env := map[string]string{"NO_COLOR": "1", "TERM": "dumb"}
	shell := clitest.Shell{Terminals: []string{"stdout", "stderr"}, Env: env}
	for _, command := range []string{
		"list", "list 1", "endpoints", "endpoints --json", "list --json", "redrive --dry-run", "work --until-empty",
		"redrive 1", "work --until-empty --json",
	} {
		got := run(t, shell, db, strings.Fields(command)...)
		text := got.Out + got.Err
		if strings.HasPrefix(command, "list") && strings.Count(text, "31m") < 4 {
			t.Errorf("%s does not show what is stored:\n%s", command, text)
		}
		if i := strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }); i >= 0 {
			t.Errorf("%s prints a control character at %d of %q", command, i, text)
		}
	}
}
