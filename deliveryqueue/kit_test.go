package deliveryqueue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry/delivery"
	"example.com/awsretry/deliveryqueue/webhook"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(processEnv); text != "" {
		fmt.Fprintln(os.Stderr, work(text))
		os.Exit(1)
	}
	time.Local = time.FixedZone("", -5*60*60) // SQLite's times must not depend on it
	code := m.Run()
	if postgres.server != nil {
		_ = postgres.server.stopServer()
	}
	os.Exit(code)
}

// must returns a function that returns the value of a call, and that fails the
// test if the call returned an error.
func must[T any](t testing.TB) func(T, error) T {
	t.Helper()
	return func(value T, err error) T {
		t.Helper()
		check(t, err)
		return value
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// postgres is shared by the tests of the package. Each test has its own database.
var postgres struct {
	once      sync.Once
	server    *server
	err       error
	databases atomic.Int64
}

// emptyPostgres returns the URL of a new database without tables.
func emptyPostgres(t testing.TB) string { return newDatabase(t, "template1") }

// newPostgres returns the URL of a new database.
func newPostgres(t testing.TB) string { return newDatabase(t, "ready") }

func newDatabase(t testing.TB, template string) string {
	t.Helper()
	postgres.once.Do(startPostgres)
	if errors.Is(postgres.err, errNoPostgres) && os.Getenv("CI") != "true" {
		t.Skip(postgres.err)
	}
	check(t, postgres.err)
	name := fmt.Sprintf("test%d", postgres.databases.Add(1))
	execute(t, connect(t, "pgx", postgres.server.url("postgres")), "CREATE DATABASE "+name+" TEMPLATE "+template)
	return postgres.server.url(name)
}

func startPostgres() {
	if postgres.server, postgres.err = startServer(); postgres.err != nil {
		return
	}
	db, err := sql.Open("pgx", postgres.server.url("postgres"))
	if err == nil {
		_, err = db.Exec("CREATE DATABASE ready")
	}
	postgres.err = errors.Join(err, db.Close(), makeTables(postgres.server.url("ready")))
}

func makeTables(store string) error {
	q, err := Open(context.Background(), store, Config{})
	if err != nil {
		return err
	}
	return q.Close()
}

func emptySQLite(t testing.TB) string { return filepath.Join(t.TempDir(), "deliveries.db") }

// newSQLite returns a copy of a file that has the tables.
func newSQLite(t testing.TB) string {
	t.Helper()
	ready.Do(func() {
		store := emptySQLite(t)
		check(t, makeTables(store))
		readySQLite = must[[]byte](t)(os.ReadFile(store))
	})
	store := emptySQLite(t)
	check(t, os.WriteFile(store, readySQLite, 0o600))
	return store
}

var (
	ready       sync.Once
	readySQLite []byte
)

// stores has, for each kind of store, a function that makes a new one.
var stores = map[string]func(testing.TB) string{"SQLite": newSQLite, "PostgreSQL": newPostgres}

// onEach runs a test on each kind of store, because their statements differ. Tests
// that do not depend on the statements use SQLite.
func onEach(t *testing.T, f func(t *testing.T, store string)) {
	t.Helper()
	for name, new := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, new(t))
		})
	}
}

func connect(t testing.TB, driver, name string) *sql.DB {
	t.Helper()
	db := must[*sql.DB](t)(sql.Open(driver, name))
	t.Cleanup(func() { db.Close() })
	return db
}

func execute(t testing.TB, db interface {
	Exec(query string, values ...any) (sql.Result, error)
}, statement string, values ...any) {
	t.Helper()
	must[sql.Result](t)(db.Exec(statement, values...))
}

// scan returns the value that a query of the store returns.
func scan[T any](t testing.TB, q *Queue, query string) (value T) {
	t.Helper()
	check(t, q.store.db.QueryRow(query).Scan(&value))
	return value
}

// loopback is the Base of tests whose endpoints are servers.
var loopback = webhook.PublicOnly(webhook.Loopback()...)

func open(t testing.TB, store string, config Config) *Queue {
	t.Helper()
	if config.PollInterval == 0 {
		config.PollInterval = 20 * time.Millisecond
	}
	if testing.Verbose() && config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	if config.Base == nil {
		config.Base = loopback
	}
	q := must[*Queue](t)(Open(t.Context(), store, config))
	t.Cleanup(func() { check(t, q.Close()) })
	return q
}

// start runs q until stop or the end of the test.
func start(t testing.TB, q *Queue) (stop func()) {
	t.Helper()
	end := run(q)
	stop = sync.OnceFunc(func() { check(t, end()) })
	t.Cleanup(stop)
	return stop
}

// run runs q until stop, which returns Run's error.
func run(q *Queue) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- q.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

// startOne enqueues a delivery, and runs q until its attempt is made and then
// until stop or the end of the test.
func startOne(t testing.TB, q *Queue, end *endpoint) (stop func()) {
	t.Helper()
	enqueue(t, q, post(t, end.URL, "hello"), Options{})
	stop = start(t, q)
	end.wait(t, 1)
	return stop
}

func post(t testing.TB, url, body string) *http.Request {
	t.Helper()
	return must[*http.Request](t)(http.NewRequest("POST", url, strings.NewReader(body)))
}

func enqueue(t testing.TB, q *Queue, req *http.Request, o Options) int64 {
	t.Helper()
	return must[int64](t)(q.Enqueue(t.Context(), req, o))
}

func parse(t testing.TB, text string) *delivery.Policy {
	t.Helper()
	return must[*delivery.Policy](t)(delivery.Parse([]byte(text)))
}

// retries is a policy of n retries without delays.
func retries(t testing.TB, n int) *delivery.Policy {
	t.Helper()
	return parse(t, fmt.Sprintf(`{"healthyRetryPolicy": {"numRetries": %[1]d, "numNoDelayRetries": %[1]d}}`, n))
}

func throttle(t testing.TB, perSecond int) *delivery.Policy {
	t.Helper()
	return parse(t, fmt.Sprintf(`{"throttlePolicy": {"maxReceivesPerSecond": %d}}`, perSecond))
}

// eventually waits until f is true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func stats(t testing.TB, q *Queue) Stats {
	t.Helper()
	return must[Stats](t)(q.Stats(t.Context()))
}

// open is how many deliveries have not ended.
func (s Stats) open() int { return s.Waiting + s.Running }

func wantStats(t testing.TB, q *Queue, want Stats) {
	t.Helper()
	if s := stats(t, q); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
}

func waitFor(t testing.TB, q *Queue, want Stats) {
	t.Helper()
	eventually(t, fmt.Sprintf("%+v", want), func() bool { return stats(t, q) == want })
}

func list(t testing.TB, q *Queue, f Filter) []Delivery {
	t.Helper()
	var all []Delivery
	for d, err := range q.List(t.Context(), f) {
		check(t, err)
		all = append(all, d)
	}
	return all
}

// get returns a delivery as it is stored.
func get(t testing.TB, q *Queue, id int64) Delivery {
	t.Helper()
	return list(t, q, Filter{IDs: []int64{id}})[0]
}

// setJob changes a job as the assignments say.
func setJob(t testing.TB, q *Queue, id int64, assignments string) {
	t.Helper()
	execute(t, q.store.db, fmt.Sprintf(`UPDATE river_job SET %s WHERE id = %d`, assignments, id))
}

// got is a request as the endpoint sees it.
type got struct {
	at     time.Time
	header http.Header
	body   string
	uri    string
}

// An endpoint responds with one status after another, and then always with the last
// one. Status 1 means that it never responds.
type endpoint struct {
	*httptest.Server
	mu       sync.Mutex
	statuses []int
	hold     chan struct{} // closed when responses may come; nil: they may
	slow     atomic.Value  // a func(http.ResponseWriter, *http.Request) before a response
	got      []got
}

func newEndpoint(t testing.TB, statuses ...int) *endpoint {
	t.Helper()
	e := &endpoint{statuses: statuses}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e.mu.Lock()
	status := e.statuses[min(len(e.got), len(e.statuses)-1)]
	e.got = append(e.got, got{time.Now(), r.Header, string(body), r.URL.RequestURI()})
	e.mu.Unlock()
	if status == 1 {
		<-r.Context().Done()
		return
	}
	if slow, ok := e.slow.Load().(func(http.ResponseWriter, *http.Request)); ok {
		slow(w, r)
	}
	if e.hold != nil {
		select {
		case <-e.hold:
		case <-r.Context().Done(): // so that a test that fails ends
		}
	}
	w.WriteHeader(status)
}

func (e *endpoint) requests() []got {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]got(nil), e.got...)
}

// wait waits for the nth request.
func (e *endpoint) wait(t testing.TB, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("request %d", n), func() bool { return len(e.requests()) >= n })
}

// check checks how many requests came.
func (e *endpoint) check(t testing.TB, want int) {
	t.Helper()
	if n := len(e.requests()); n != want {
		t.Errorf("%d requests, want %d", n, want)
	}
}

// respond changes the next statuses.
func (e *endpoint) respond(status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.statuses = []int{status}
}
