package queue

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unicode"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

// execute changes a store as nothing but another program does.
func execute(t *testing.T, db, statement string) {
	t.Helper()
	store, err := sql.Open("sqlite", db)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// A store that a newer program or another user has made is an error of one
// line for every command.
func TestStoreCannotBeUsed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		make       func(t *testing.T, db string)
	}{
		{"newer tables of River", "the tables of River have version 99; this program knows", func(t *testing.T, db string) {
			execute(t, db, "INSERT INTO river_migration (line, version) VALUES ('main', 99)")
		}},
		{"newer tables", "have version 99; this program knows", func(t *testing.T, db string) {
			execute(t, db, "INSERT INTO deliveryqueue_schema (version) VALUES (99)")
		}},
		{"read-only", "permission denied", func(t *testing.T, db string) {
			if runtime.GOOS == "windows" || os.Getuid() == 0 {
				t.Skip("the rights do not apply to this user")
			}
			if err := os.Chmod(db, 0o400); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := newDB(t)
			succeed(t, db, "enqueue", "http://127.0.0.1:1/")
			c.make(t, db)
			for _, args := range [][]string{
				{"enqueue", "http://127.0.0.1:1/"}, {"work"}, {"list"}, {"stats"}, {"redrive"}, {"cancel", "1"},
				{"cancel", "--state", "dead"}, {"endpoints"}, {"pause", "http://127.0.0.1:1"}, {"resume", "http://127.0.0.1:1"},
			} {
				got := run(t, clitest.Shell{}, db, args...)
				if got.Status != cli.Failure || got.Out != "" || strings.Count(got.Err, "\n") != 1 ||
					!strings.HasPrefix(got.Err, "awsretry-deliver "+args[0]+": "+db+": ") || !strings.Contains(got.Err, c.want) {
					t.Errorf("%q: %+v, want %q", args, got, c.want)
				}
			}
		})
	}
}

// A coded is an error as the SQLite driver has them.
type coded int

func (c coded) Error() string { return fmt.Sprintf("no words (%d)", int(c)) }

func (c coded) Code() int { return int(c) }

func TestStoreText(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"locked", fmt.Errorf("deliveryqueue: Enqueue: %w", coded(5)), "it is locked by another process"},
		{"locked, extended", coded(5 | 2<<8), "it is locked by another process"},
		{"read-only", coded(8), "it is read-only, or its folder is; the store must be writable"},
		{"full", coded(13), "the disk is full"},
		{"another code", coded(1), "no words (1)"},
		{"lines", errors.New("failed to connect:\n\tone: refused\n\tone: refused\n\ttwo: refused"),
			"failed to connect: one: refused; two: refused"},
		{"a field", errors.New("deliveryqueue: Run: Config.StopTimeout, 1s"), "--stop-timeout, 1s"},
		{"control characters", errors.New("a\x1b[31m\u009b"), "a\uFFFD[31m\uFFFD"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := storeText(c.err); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
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
	for _, args := range [][]string{
		{"list"}, {"list", "1"}, {"endpoints"}, {"endpoints", "--json"}, {"list", "--json"}, {"redrive", "--dry-run"}, {"work", "--until-empty"}, {"redrive", "1"},
		{"work", "--until-empty", "--json"},
	} {
		shell := clitest.Shell{Terminals: []string{"stdout", "stderr"}, Env: map[string]string{"NO_COLOR": "1", "TERM": "dumb"}}
		got := run(t, shell, db, args...)
		text := got.Out + got.Err
		if args[0] == "list" && strings.Count(text, "31m") < 4 {
			t.Errorf("%q does not show what is stored:\n%s", args, text)
		}
		if i := strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }); i >= 0 {
			t.Errorf("%q prints a control character at %d of %q", args, i, text)
		}
	}
}
