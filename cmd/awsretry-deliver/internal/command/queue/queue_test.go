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
	args := []string{"enqueue", "--policy", policy, "--key", "key-1", "-X", "PUT", "-H", "X-A: 1", "-d", "@" + body, address}
	if out := succeed(t, db, args...); out != "1\n" {
		t.Errorf("%q is printed, want a number", out)
	}
	if out := succeed(t, db, "enqueue", "-H", "Idempotency-Key: own", "-H", "Host: hooks.example.com", h.URL+"/ok"); out != "2\n" {
		t.Errorf("%q is printed, want a number", out)
	}
	if info, err := os.Stat(db); err != nil || os.PathSeparator == '/' && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v, want a file of its owner's", info, err)
	}
	succeed(t, db, "work", "--until-empty")
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.requests) != 3 {
		t.Fatalf("%d requests, want 3", len(h.requests))
	}
	seen := make(map[string]int)
	for i, r := range h.requests {
		user, password, _ := r.BasicAuth()
		host := strings.Replace(r.Host, h.Listener.Addr().String(), "", 1)
		seen[fmt.Sprintf("%s %s%s %s:%s %s %s %q", r.Method, host, r.URL,
			user, password, r.Header.Get("Idempotency-Key"), r.Header.Get("X-A"), h.bodies[i])]++
	}
	if seen[`PUT /flaky?q=1 user:pass key-1 1 "from a file"`] != 2 || seen[`POST hooks.example.com/ok : own  ""`] != 1 {
		t.Errorf("%v was sent", seen)
	}
}

// An unusable store or an invalid delivery is an error before anything is
// stored.
func TestErrors(t *testing.T) {
	t.Parallel()
	const url = "http://user:secret@hooks.example.com/?secret"
	dir := t.TempDir()
	none, other := filepath.Join(dir, "none.db"), clitest.File(t, "other", strings.Repeat("no database ", 100))
	db := newDB(t)
	large := clitest.File(t, "large", strings.Repeat("x", 300<<10))
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"enqueue", url}, cli.Usage, "--db is missing; it must be"},
		{[]string{"enqueue", "--db", "", url}, cli.Usage, `--db is ""; it must not be empty` + "\n"},
		{[]string{"enqueue", "--db", db}, cli.Usage, "URL is missing"},
		{[]string{"enqueue", "--db", db, ""}, cli.Usage, "URL is empty"},
		{[]string{"enqueue", "--db", db, "http://[::ffff:127.0.0.1]:1/"}, cli.Usage,
			"URL has the address 127.0.0.1 (loopback), which is not public; --allow-private accepts it\n"},
		{[]string{"enqueue", "--db", db, "ftp://127.0.0.1/"}, cli.Usage, "must begin with http:// or https://"},
		{[]string{"enqueue", "--db", db, "http://user:secret/@127.0.0.1/"}, cli.Usage, "URL cannot be read; characters of a user"},
		{[]string{"enqueue", "--db", db, "http://user:secret@"}, cli.Usage, `URL "http:" has no host`},
		{[]string{"enqueue", "--db", db, "-H", "Authorization Bearer secret", url}, cli.Usage, `"Authorization" has no such name`},
		{[]string{"list", "--db", db, "--workers", "2"}, cli.Usage, "unknown flag: --workers\n"},
		{[]string{"enqueue", "--db", db, "--json", url}, cli.Usage, "unknown flag: --json\n"},
		{[]string{"stats", "--db", db, "--header", "Authorization: secret"}, cli.Usage, "unknown flag: --header\n"},
		{[]string{"work", "--db", db, "here"}, cli.Usage, `"here" is one too many`},
		{[]string{"work", "--db", db, "--workers", "10001"}, cli.Usage, `--workers is "10001"; it must be`},
		{[]string{"work", "--db", db, "--stop-timeout", "0"}, cli.Usage, `--stop-timeout is "0"; it must be`},
		{[]string{"list", "--db", db, "--state", "done"}, cli.Usage, `--state is "done"; it must be waiting, running`},
		{[]string{"list", "--db", db, "--endpoint", "http://h/path"}, cli.Usage, "--endpoint must be a scheme and a host"},
		{[]string{"list", "--db", db, "0"}, cli.Usage, `ID is "0"; it must be the number of a delivery`},
		{[]string{"cancel", "--db", db}, cli.Usage, "ID is missing; it must be the number of a delivery, or a flag"},
		{[]string{"cancel", "--db", db, "--dry-run"}, cli.Usage, "ID is missing"},
		{[]string{"cancel", "--db", db, "--state", "dead", "1"}, cli.Usage, "ID and flags exclude each other"},
		{[]string{"cancel", "--db", db, "--state", "delivered"}, cli.Usage, `--state is "delivered"; it must be waiting, running or dead`},
		{[]string{"pause", "--db", db}, cli.Usage, "URL is missing"},
		{[]string{"pause", "--db", db, "http://user:secret@h"}, cli.Usage, "URL must be a scheme and a host"},
		{[]string{"resume", "--db", db, "https://h/path"}, cli.Usage, "URL must be a scheme and a host"},
		{[]string{"endpoints", "--db", db, "here"}, cli.Usage, `"here" is one too many`},
		{[]string{"work", "--db", db, "--disable-after", "-1s"}, cli.Usage, `--disable-after is "-1s"; it must be`},
		{[]string{"enqueue", "--db", db, "-H", "X: a\r\nY: b", url}, cli.Usage, "--header X has a control character in its value"},
		{[]string{"enqueue", "--db", db, "-H", "Host: a b", url}, cli.Usage, `--header Host is "a b"; it must be a host`},
		{[]string{"enqueue", "--db", db, "--key", "a\nb", url}, cli.Usage, `--key is "a\nb"; it must be of visible ASCII`},
		{[]string{"enqueue", "--db", db, "--key", strings.Repeat("a", 256), url}, cli.Usage, "--key has 256 characters; it must"},
		{[]string{"enqueue", "--db", db, "--key", "a", "-H", "idempotency-key: b", url}, cli.Usage, "exclude each other"},
		{[]string{"enqueue", "--db", db, "-X", "A B", url}, cli.Usage, `--method is "A B"`},
		{[]string{"enqueue", "--db", db, "-d", "@" + large, url}, cli.Usage, "--data is too long; a delivery's body may have 262,144 bytes"},
		{[]string{"enqueue", "--db", db, "-d", "@" + none, url}, 1, "--data: "},
		{[]string{"enqueue", "--db", db, "--policy", "-", "-d", "@-", url}, cli.Usage, "both to be read from standard input"},
		{[]string{"enqueue", "--db", db, "--policy", "-", url}, 1, "standard input:1:1: not JSON"},
		{[]string{"enqueue", "--db", db, "--policy", none, url}, 1, "none.db: no such file"},
		{[]string{"list", "--db", none}, 1, "none.db does not exist; the first delivery makes it\n"},
		{[]string{"work", "--db", none}, 1, "none.db does not exist; the first delivery makes it\n"},
		{[]string{"enqueue", "--db", filepath.Join(none, "db"), url}, 1, "none.db/db: "},
		{[]string{"enqueue", "--db", dir, url}, 1, " is a directory; --db must be"},
		{[]string{"stats", "--db", other}, 1, "other: it is not an SQLite database\n"},
		{[]string{"list", "--db", "mysql://user:secret@host/db"}, cli.Usage, `--db begins with "mysql://"; it must be`},
		{[]string{"list", "--db", "POSTGRES://user:secret@host/db"}, cli.Usage, "it must begin with postgres://\n"},
		{[]string{"enqueue", "--db", "postgres:user:secret@host", url}, cli.Usage, "it must begin with postgres://\n"},
		{[]string{"list", "--db", "host=h password=secret"}, cli.Usage, "--db is a connection string; it must be"},
		{[]string{"list", "--db", "postgres://user:secret@127.0.0.1:1/db"}, 1, "connection refused\n"},
		{[]string{"list", "--db", "postgres://user:se%zzcret@127.0.0.1:1/db?password=secret"}, 1, "postgres://…: "},
		{[]string{"list", "--db", "postgres://127.0.0.1:1/db?password=secret&sslmode=x"}, 1, "127.0.0.1:1/db: "},
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
	const empty = `{"waiting":0,"running":0,"delivered":0,"dead":0,"canceled":0}`
	if out := succeed(t, db, "stats", "--json"); out != empty+"\n" {
		t.Errorf("stored: %s", out)
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("a store was made")
	}
}

// The number of a delivery that could not be printed is in the error.
func TestEnqueueIntoFullDisk(t *testing.T) {
	t.Parallel()
	got := run(t, clitest.Shell{Out: clitest.FullDisk{}}, newDB(t), "enqueue", "http://127.0.0.1:1/")
	got.Check(t, cli.Failure, "", "delivery 1 is stored")
}

// A body of the most bytes is stored.
func TestLargestBody(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	shell := clitest.Shell{In: strings.NewReader(strings.Repeat("x", 256<<10))}
	if got := run(t, shell, db, "enqueue", "-d", "@-", "http://127.0.0.1:1/"); got.Status != 0 || got.Out != "1\n" {
		t.Errorf("%+v", got)
	}
}

func entries(t *testing.T, db string, args ...string) []entry {
	t.Helper()
	var all []entry
	for line := range strings.Lines(succeed(t, db, append([]string{"list", "--json"}, args...)...)) {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}
