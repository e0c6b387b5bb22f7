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
	"example.com/awsretry/deliveryqueue/internal/storetest"
)

// postgres is shared by the tests of the package, with a database each.
var postgres struct {
	once      sync.Once
	server    *storetest.Server
	err       error
	databases atomic.Int64
}

func TestMain(m *testing.M) {
	if os.Getenv(workerStore) != "" {
		os.Exit(workUntilKilled())
	}
	if store := os.Getenv(quietWorker); store != "" {
		os.Exit(work(store))
	}
	time.Local = time.FixedZone("", -5*60*60) // SQLite's times must not depend on it
	code := m.Run()
	if postgres.server != nil {
		if err := postgres.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping PostgreSQL:", err)
		}
	}
	os.Exit(code)
}

// newPostgres returns the URL of a new database.
func newPostgres(t testing.TB) string {
	t.Helper()
	postgres.once.Do(func() {
		postgres.server, postgres.err = storetest.Start()
		if errors.Is(postgres.err, storetest.ErrMissing) && os.Getenv("CI") != "true" {
			fmt.Println("SKIPPED:", postgres.err, "so the tests of deliveryqueue on PostgreSQL do not run")
		}
	})
	if errors.Is(postgres.err, storetest.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(postgres.err)
	}
	if postgres.err != nil {
		t.Fatal(postgres.err)
	}
	name := fmt.Sprintf("test%d", postgres.databases.Add(1))
	db, err := sql.Open("pgx", postgres.server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	execute(t, db, "CREATE DATABASE "+name)
	return postgres.server.URL(name)
}

func newSQLite(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "deliveries.db")
}

func connect(t testing.TB, driver, name string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func execute(t testing.TB, db *sql.DB, statement string, values ...any) {
	t.Helper()
	if _, err := db.Exec(statement, values...); err != nil {
		t.Fatal(err)
	}
}

// stores are the kinds of stores, with how a new one is made.
var stores = map[string]func(testing.TB) string{"SQLite": newSQLite, "PostgreSQL": newPostgres}

// onEach runs a test on each kind of store.
func onEach(t *testing.T, f func(t *testing.T, store string)) {
	t.Helper()
	for name, new := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, new(t))
		})
	}
}

func open(t testing.TB, store string, config Config) *Queue {
	t.Helper()
	if config.PollInterval == 0 {
		config.PollInterval = 20 * time.Millisecond
	}
	if testing.Verbose() {
		config.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	q, err := Open(t.Context(), store, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return q
}

// start runs q until stop or the end of the test.
func start(t testing.TB, q *Queue) (stop func()) {
	t.Helper()
	end := run(q)
	stop = sync.OnceFunc(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
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
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func enqueue(t testing.TB, q *Queue, req *http.Request, o Options) int64 {
	t.Helper()
	id, err := q.Enqueue(t.Context(), req, o)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// hasResponded makes the store know an endpoint as one that responds.
func hasResponded(t testing.TB, q *Queue, endpoint string) {
	t.Helper()
	if err := q.store.setHealth(t.Context(), endpoint, false, false); err != nil {
		t.Fatal(err)
	}
}

func parse(t testing.TB, text string) *delivery.Policy {
	t.Helper()
	policy, err := delivery.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// noRetries is a policy.
const noRetries = `{"healthyRetryPolicy": {"numRetries": 0}}`

// eventually waits until f is true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	eventuallyIn(t, time.Minute, what, f)
}

func eventuallyIn(t testing.TB, limit time.Duration, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func stats(t testing.TB, q *Queue) Stats {
	t.Helper()
	s, err := q.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// open is how many deliveries have not ended.
func (s Stats) open() int { return s.Waiting + s.Running }

func waitFor(t testing.TB, q *Queue, want Stats) {
	t.Helper()
	eventually(t, fmt.Sprintf("%+v", want), func() bool { return stats(t, q) == want })
}

func list(t testing.TB, q *Queue, f Filter) []Delivery {
	t.Helper()
	var all []Delivery
	for d, err := range q.List(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// noContent is a Base that responds with 204.
func noContent(req *http.Request) (*http.Response, error) {
	req.Body.Close()
	return &http.Response{StatusCode: 204, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

// got is a request as the endpoint sees it.
type got struct {
	at     time.Time
	header http.Header
	body   string
	uri    string
}

// An endpoint responds with one status after the other, and then always with
// the last one. Status 1 is a response that never comes.
type endpoint struct {
	*httptest.Server
	mu       sync.Mutex
	statuses []int
	delay    time.Duration
	hold     chan struct{} // closed when responses may come; nil: they may
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
	status, delay := e.statuses[min(len(e.got), len(e.statuses)-1)], e.delay
	e.got = append(e.got, got{time.Now(), r.Header, string(body), r.URL.RequestURI()})
	e.mu.Unlock()
	if status == 1 {
		<-r.Context().Done()
		return
	}
	time.Sleep(delay)
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
	eventually(t, fmt.Sprintf("request %d", n), func() bool { return len(e.requests()) == n })
}

// check checks how many requests came.
func (e *endpoint) check(t testing.TB, want int) {
	t.Helper()
	if n := len(e.requests()); n != want {
		t.Errorf("%d requests, want %d", n, want)
	}
}

// respond changes what comes next.
func (e *endpoint) respond(status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.statuses = []int{status}
}
