package deliveryqueue

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// errNoBouncer is the error of bouncer if there is no PgBouncer on the machine.
var errNoBouncer = errors.New("pgbouncer is not in PATH")

// bouncer starts a PgBouncer in transaction mode before the server, on loopback.
// It returns the URL of a database through it. stop stops it.
func (s *server) bouncer(database string) (url string, stop func(), err error) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		return "", nil, errNoBouncer
	}
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	config := filepath.Join(s.dir, "pgbouncer.ini")
	if err := os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=127.0.0.1 port=%d user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
server_round_robin = 1
`, s.port, port), 0o644); err != nil {
		return "", nil, err
	}
	cmd := exec.Command("/bin/sh", "-c", `"$@" </dev/null & pid=$!; read end; kill -TERM $pid; kill -QUIT $pid; wait $pid`,
		"sh", program, config)
	s.as.run(cmd, s.dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		in.Close()
		_ = cmd.Wait()
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	for range 200 {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", address, database), stop, conn.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	return "", nil, fmt.Errorf("pgbouncer does not listen on %s", address)
}

// Through PgBouncer in transaction mode, everything works with
// default_query_exec_mode=exec. Notifications do not arrive, so deliveries wait for
// a poll.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	direct := newPostgres(t)
	name := direct[strings.LastIndex(direct, "/")+1 : strings.LastIndex(direct, "?")]
	url, stop, err := postgres.server.bouncer(name)
	if errors.Is(err, errNoBouncer) {
		t.Skip(err)
	}
	check(t, err)
	t.Cleanup(stop)
	exercise(t, open(t, url+"&default_query_exec_mode=exec", exercised))
}

// exercised is the Config for exercise.
var exercised = Config{Base: loopback, PollInterval: 50 * time.Millisecond, DisableAfter: time.Hour}

// exercise uses everything of an empty queue.
func exercise(t *testing.T, q *Queue) {
	t.Helper()
	good, bad, limited := newEndpoint(t, 200), newEndpoint(t, 503, 200), newEndpoint(t, 200)
	stopRun := start(t, q)
	var items []Item
	for range 100 {
		items = append(items, Item{post(t, good.URL, "hello"), Options{}})
	}
	must[[]int64](t)(q.EnqueueMany(t.Context(), items))
	id := enqueue(t, q, post(t, bad.URL, "hello"), Options{Policy: retries(t, 3)})
	for range 3 {
		enqueue(t, q, post(t, limited.URL, "hello"), Options{Policy: throttle(t, 100)})
	}
	waitFor(t, q, Stats{Delivered: 104})
	if d := get(t, q, id); d.Attempts != 2 {
		t.Errorf("%+v", d)
	}
	check(t, q.Pause(t.Context(), good.URL))
	once := Options{Tags: []string{"a", "b"}, IdempotencyKey: "key", Once: true}
	waits := enqueue(t, q, post(t, good.URL, "hello"), once)
	if again := enqueue(t, q, post(t, good.URL, "hello"), once); again != waits {
		t.Errorf("delivery %d and then %d", waits, again)
	}
	if all := list(t, q, Filter{Tags: []string{"b"}, IdempotencyKey: "key"}); len(all) != 1 || all[0].ID != waits {
		t.Errorf("%+v", all)
	}
	if all := endpoints(t, q); all[good.URL].Waiting != 1 || all[good.URL].Paused.IsZero() {
		t.Errorf("%+v", all)
	}
	if req := must[*http.Request](t)(q.Request(t.Context(), waits)); req.URL.String() != good.URL {
		t.Errorf("%+v", req)
	}
	check(t, q.Cancel(t.Context(), waits))
	check(t, q.Resume(t.Context(), good.URL))
	bad.respond(400)
	enqueue(t, q, post(t, bad.URL, "hello"), Options{})
	waitFor(t, q, Stats{Delivered: 104, Canceled: 1, Dead: 1})
	must[int](t)(q.Redrive(t.Context(), Filter{Endpoint: bad.URL}))
	waitFor(t, q, Stats{Delivered: 104, Canceled: 1, Dead: 1})
	must[int](t)(q.CancelAll(t.Context(), Filter{State: Dead}))
	check(t, q.store.forget(t.Context()))
	stopRun()
	wantStats(t, q, Stats{Delivered: 104, Canceled: 2})
}
