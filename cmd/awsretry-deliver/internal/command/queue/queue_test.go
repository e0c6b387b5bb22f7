package queue

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
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

// A hook is an endpoint. Its responses depend on the path: those of /ok, /gone and
// /broken are always the same, and the first response of /flaky is a failure.
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
		w.WriteHeader(400)
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
	db := newDB(t)
	vars := map[string]string{
		"FOLDER": t.TempDir(), "DB": db, "LARGE": clitest.File(t, "large", strings.Repeat("x", 300<<10)),
		"LONG": strings.Repeat("a", 256),
	}
	clitest.Shell{}.Transcript(t, "errors.txt", vars, Commands...)
	down := run(t, clitest.Shell{}, "postgres://user:secret@127.0.0.1:1/db", "list")
	down.Check(t, cli.Failure, "", "awsretry-deliver list: postgres://127.0.0.1:1/db: ", "connection refused\n")
	if strings.Contains(down.Err, "secret") || strings.Count(down.Err, "\n") != 1 {
		t.Errorf("a secret, or not one line: %q", down.Err)
	}
	if _, err := os.Stat(filepath.Join(vars["FOLDER"], "none")); err == nil {
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

// A delivery is stored once by its key, found by its tags, read, and sent again.
func TestFoundAndSentAgain(t *testing.T) {
	t.Parallel()
	h, db := newHook(t), newDB(t)
	var stored []int64
	for i, tag := range []string{"customer:17", "customer:18", "customer:17"} {
		key := fmt.Sprintf("key-%d", i+1)
		args := []string{"enqueue", "--once", "--key", key, "--tag", tag, "--tag", "all", "-d", "body " + key, h.URL + "/ok"}
		first := decoded[int64](t, succeed(t, db, args...))[0]
		if again := decoded[int64](t, succeed(t, db, args...))[0]; again != first {
			t.Errorf("the numbers are %d and %d", first, again)
		}
		stored = append(stored, first)
	}
	second := fmt.Sprint(stored[1])
	ids := func(args ...string) (all []int64) {
		for _, e := range entries(t, db, args...) {
			all = append(all, e.ID)
		}
		return all
	}
	for _, tt := range []struct {
		args string
		want []int64
	}{
		{"--tag customer:17 --tag all", []int64{stored[0], stored[2]}},
		{"--key key-2", []int64{stored[1]}},
		{"--newest --limit 2", []int64{stored[2], stored[1]}},
		{"--newest --limit 2 --after " + second, []int64{stored[0]}},
	} {
		if got := ids(strings.Fields(tt.args)...); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.args, got, tt.want)
		}
	}
	if e := entries(t, db, second)[0]; !slices.Equal(e.Tags, []string{"customer:18", "all"}) {
		t.Errorf("%+v", e)
	}
	if out := succeed(t, db, "body", second); out != "body key-2" {
		t.Errorf("its body is %q", out)
	}
	run(t, clitest.Shell{}, db, "body", "99").Check(t, cli.Failure, "", "99: there is no such delivery\n")
	succeed(t, db, "work", "--until-empty")
	if out := succeed(t, db, "redrive", "--state", "delivered", "--tag", "customer:17"); out != "✓ 2 deliveries will be delivered again\n" {
		t.Errorf("it prints %s", out)
	}
	succeed(t, db, "work", "--until-empty")
	if len(h.requests) != 5 {
		t.Errorf("%d requests", len(h.requests))
	}
}
