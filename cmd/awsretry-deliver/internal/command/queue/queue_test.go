package queue

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

var program = cli.Program{Name: "awsretry-deliver", Commands: Commands}

// run runs a command with a store. Endpoints are on loopback, so it allows
// private addresses.
func run(t *testing.T, shell clitest.Shell, db string, args ...string) clitest.Result {
	t.Helper()
	flags := []string{args[0], "--db", db}
	if args[0] == "enqueue" || args[0] == "work" {
		flags = append(flags, "--allow-private")
	}
	return shell.RunProgram(t.Context(), t, program, append(flags, args[1:]...)...)
}

// succeed runs a command that has no errors, and returns its standard output.
func succeed(t *testing.T, db string, args ...string) string {
	t.Helper()
	got := run(t, clitest.Shell{}, db, args...)
	if got.Status != 0 || got.Err != "" {
		t.Fatalf("%q: status %d, standard error:\n%s", args, got.Status, got.Err)
	}
	return got.Out
}

func newDB(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "deliveries.db")
}

// atOnce is a policy of two retries without pauses.
const atOnce = `{"healthyRetryPolicy": {"numRetries": 2, "numNoDelayRetries": 2}}`

// A hook is an endpoint. Its responses depend on the path: /ok, /gone and
// /broken always have the same, and the first to /flaky is a failure.
type hook struct {
	*httptest.Server
	mu       sync.Mutex // guards the fields below
	requests []*http.Request
	bodies   []string
	flaky    int
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := new(hook)
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests, h.bodies = append(h.requests, r), append(h.bodies, string(body))
	switch r.URL.Path {
	case "/gone":
		w.WriteHeader(404)
		io.WriteString(w, "no such hook\n")
	case "/broken":
		w.WriteHeader(503)
	case "/flaky":
		if h.flaky++; h.flaky == 1 {
			w.WriteHeader(503)
		}
	}
}

func TestEnqueue(t *testing.T) {
	t.Parallel()
	h, db := newHook(t), newDB(t)
	body, policy := clitest.File(t, "body", "from a file"), clitest.File(t, "policy.json", atOnce)
	address := strings.Replace(h.URL, "http://", "http://user:pass@", 1) + "/flaky?q=1"
	for i, args := range [][]string{
		{"--policy", policy, "--key", "key-1", "-X", "PUT", "-H", "X-A: 1", "-d", "@" + body, address},
		{"-H", "Idempotency-Key: own", "-H", "Host: hooks.example.com", h.URL + "/ok"},
	} {
		if out := succeed(t, db, append([]string{"enqueue"}, args...)...); out != fmt.Sprintln(i+1) {
			t.Errorf("%q is printed, want the number %d", out, i+1)
		}
	}
	if info, err := os.Stat(db); err != nil || os.PathSeparator == '/' && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v, want a file of its owner's", info, err)
	}
	succeed(t, db, "work", "--until-empty")
	seen := make(map[string]int)
	for i, r := range h.requests {
		user, password, _ := r.BasicAuth()
		host := strings.Replace(r.Host, h.Listener.Addr().String(), "", 1)
		seen[fmt.Sprintf("%s %s%s %s:%s %s %s %q", r.Method, host, r.URL,
			user, password, r.Header.Get("Idempotency-Key"), r.Header.Get("X-A"), h.bodies[i])]++
	}
	if len(h.requests) != 3 || seen[`PUT /flaky?q=1 user:pass key-1 1 "from a file"`] != 2 ||
		seen[`POST hooks.example.com/ok : own  ""`] != 1 {
		t.Errorf("%v was sent", seen)
	}
}

// An unusable store or an invalid delivery is an error before anything is
// stored.
func TestErrors(t *testing.T) {
	t.Parallel()
	const url = "http://user:secret@hooks.example.com/?secret"
	dir := t.TempDir()
	db, none := newDB(t), filepath.Join(dir, "none.db")
	large := clitest.File(t, "large", strings.Repeat("x", 300<<10))
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"enqueue", url}, cli.Usage, "--db is missing; it must be"},
		{[]string{"enqueue", "--db", "", url}, cli.Usage, `--db is ""; it must not be empty` + "\n"},
		{[]string{"enqueue", "--db", db}, cli.Usage, "URL is missing"},
		{[]string{"enqueue", "--db", db, "http://[::ffff:127.0.0.1]:1/"}, cli.Usage,
			"URL has the address 127.0.0.1 (loopback), which is not public; --allow-private accepts it\n"},
		{[]string{"enqueue", "--db", db, "http://user:secret/@127.0.0.1/"}, cli.Usage,
			"URL cannot be read; characters of a user"},
		{[]string{"enqueue", "--db", db, "http://user:secret@"}, cli.Usage, `URL "http:" has no host`},
		{[]string{"list", "--db", db, "--workers", "2"}, cli.Usage, "unknown flag: --workers\n"},
		{[]string{"stats", "--db", db, "--header", "Authorization: secret"}, cli.Usage, "unknown flag: --header\n"},
		{[]string{"work", "--db", db, "here"}, cli.Usage, `"here" is one too many`},
		{[]string{"endpoints", "--db", db, "here"}, cli.Usage, `"here" is one too many`},
		{[]string{"work", "--db", db, "--workers", "10001"}, cli.Usage, `--workers is "10001"; it must be`},
		{[]string{"list", "--db", db, "--state", "done"}, cli.Usage, `--state is "done"; it must be waiting, running`},
		{[]string{"list", "--db", db, "--endpoint", "http://h/path"}, cli.Usage,
			"--endpoint must be a scheme and a host"},
		{[]string{"list", "--db", db, "0"}, cli.Usage, `ID is "0"; it must be the number of a delivery`},
		{[]string{"list", "--db", db, "x"}, cli.Usage, `ID is "x"; it must be the number of a delivery`},
		{[]string{"cancel", "--db", db, "--dry-run"}, cli.Usage,
			"ID is missing; it must be the number of a delivery, or a flag"},
		{[]string{"cancel", "--db", db, "--state", "dead", "1"}, cli.Usage, "ID and flags exclude each other"},
		{[]string{"cancel", "--db", db, "--dry-run", "1"}, cli.Usage, "ID and flags exclude each other"},
		{[]string{"cancel", "--db", db, "--state", "delivered"}, cli.Usage,
			`--state is "delivered"; it must be waiting, running or dead`},
		{[]string{"cancel", "--db", db, "--state", "canceled"}, cli.Usage, `--state is "canceled"; it must be`},
		{[]string{"pause", "--db", db}, cli.Usage, "URL is missing"},
		{[]string{"resume", "--db", db, "http://user:secret@h"}, cli.Usage, "URL must be a scheme and a host"},
		{[]string{"pause", "--db", db, "ftp://h"}, cli.Usage, "URL must be a scheme and a host"},
		{[]string{"pause", "--db", db, "https://"}, cli.Usage, "URL must be a scheme and a host"},
		{[]string{"enqueue", "--db", db, "-H", "Host: a b", url}, cli.Usage,
			`--header Host is "a b"; it must be a host`},
		{[]string{"enqueue", "--db", db, "--key", "a\nb", url}, cli.Usage,
			`--key is "a\nb"; it must be of visible ASCII`},
		{[]string{"enqueue", "--db", db, "--key", strings.Repeat("a", 256), url}, cli.Usage,
			"--key has 256 characters; it must"},
		{[]string{"enqueue", "--db", db, "--key", "a", "-H", "idempotency-key: b", url}, cli.Usage,
			"exclude each other"},
		{[]string{"enqueue", "--db", db, "-d", "@" + large, url}, cli.Usage,
			"--data is too long; a delivery's body may have 262,144 bytes"},
		{[]string{"enqueue", "--db", db, "-d", "@" + none, url}, cli.Failure, "--data: "},
		{[]string{"enqueue", "--db", db, "--policy", "-", "-d", "@-", url}, cli.Usage,
			"both to be read from standard input"},
		{[]string{"enqueue", "--db", db, "--policy", "-", url}, cli.Failure, "standard input:1:1: not JSON"},
		{[]string{"list", "--db", none}, cli.Failure, "none.db does not exist; the first delivery makes it\n"},
		{[]string{"work", "--db", none}, cli.Failure, "none.db does not exist; the first delivery makes it\n"},
		{[]string{"enqueue", "--db", filepath.Join(none, "db"), url}, cli.Failure, "none.db/db: "},
		{[]string{"enqueue", "--db", dir, url}, cli.Failure, " is a directory; --db must be"},
		{[]string{"enqueue", "--db", os.DevNull, url}, cli.Failure, " is not a regular file; --db must be"},
		{[]string{"stats", "--db", large}, cli.Failure, "large: it is not an SQLite database\n"},
		{[]string{"list", "--db", "mysql://user:secret@host/db"}, cli.Usage,
			`--db begins with "mysql://"; it must be`},
		{[]string{"list", "--db", "POSTGRES://user:secret@host/db"}, cli.Usage, "it must begin with postgres://\n"},
		{[]string{"enqueue", "--db", "postgresql:user:secret@host", url}, cli.Usage,
			"it must begin with postgres://\n"},
		{[]string{"list", "--db", "host=h password=secret"}, cli.Usage, "--db is a connection string; it must be"},
		{[]string{"list", "--db", "host=h dbname=secret"}, cli.Usage, "--db is a connection string; it must be"},
		{[]string{"list", "--db", "postgres://user:secret@127.0.0.1:1/db"}, cli.Failure, "connection refused\n"},
		{[]string{"list", "--db", "postgresql://user:se%zzcret@127.0.0.1:1/db?password=secret"}, cli.Failure,
			"postgres://…: "},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			got := clitest.Shell{In: strings.NewReader("?")}.RunProgram(t.Context(), t, program, c.args...)
			got.Check(t, c.status, "", c.want)
			lines := 1
			if c.status == cli.Usage {
				lines = 2 // See awsretry-deliver list --help
			}
			if strings.Count(got.Err, "\n") != lines || strings.Contains(got.Err, "secret") ||
				strings.Contains(got.Err, "deliveryqueue") {
				t.Errorf("not one line, or a secret, or a package:\n%s", got.Err)
			}
		})
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("a store was made")
	}
	const empty = `{"waiting":0,"running":0,"delivered":0,"dead":0,"canceled":0}`
	if out := succeed(t, db, "stats", "--json"); out != empty+"\n" {
		t.Errorf("stored: %s", out)
	}
}

// The number of a delivery that could not be printed is in the error.
func TestEnqueueIntoFullDisk(t *testing.T) {
	t.Parallel()
	got := run(t, clitest.Shell{Out: clitest.FullDisk{}}, newDB(t), "enqueue", "http://127.0.0.1:1/")
	got.Check(t, cli.Failure, "", "delivery 1 is stored")
}

func entries(t *testing.T, db string, args ...string) []entry {
	t.Helper()
	return decoded[entry](t, succeed(t, db, append([]string{"list", "--json"}, args...)...))
}

// decoded returns the values of lines of JSON.
func decoded[T any](t *testing.T, lines string) []T {
	t.Helper()
	var all []T
	for decoder := json.NewDecoder(strings.NewReader(lines)); decoder.More(); {
		var value T
		if err := decoder.Decode(&value); err != nil {
			t.Fatalf("%v in %q", err, lines)
		}
		all = append(all, value)
	}
	return all
}
