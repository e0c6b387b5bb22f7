package fleet_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/protocol"
	"example.com/awsretry/internal/httpfake"
	"github.com/valkey-io/valkey-go"
)

const (
	host   = "service.test" // and the partition of most requests
	prefix = "orders"
	key    = prefix + ":{" + host + "}"
	delay  = 10 * time.Millisecond // of a response
)

// count is how many processes most fleets have.
var count = 20

// reply returns a reply of the script when nothing is limited, with some values
// changed.
func reply(change func(*protocol.Reply)) []string {
	r := protocol.Reply{Last: protocol.Last{Epoch: "epoch", Now: 1, Part: 1}, Members: 1, Left: 100}
	if change != nil {
		change(&r)
	}
	return text(&r)
}

// renewal returns a renewal by a process that wants many send tokens, with some
// values changed.
func renewal(change func(*protocol.Request)) []string {
	r := protocol.Request{
		ID: "id", Settings: "settings", Pacing: "scaled", Lease: 400, Expiry: 60000, SeedRate: 100, SeedTokens: 490,
		Law: protocol.Law{Rate: -1}, Wanted: 1000, Capacity: capacity, Traffic: -1, Asked: 10,
	}
	if change != nil {
		change(&r)
	}
	return text(&r)
}

// text returns a request or a reply as JSON.
func text(v any) []string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return []string{string(text)}
}

// read parses a request or a reply.
func read[T any](texts []string) (v T) {
	if err := json.Unmarshal([]byte(texts[0]), &v); err != nil {
		panic(err)
	}
	return v
}

// A clientFunc is a Client whose script is a Go function.
type clientFunc func(ctx context.Context, key string, r protocol.Request) ([]string, error)

func (f clientFunc) Eval(ctx context.Context, _ string, keys, args []string) ([]string, error) {
	return f(ctx, keys[0], read[protocol.Request](args))
}

// A link connects one process to a store. It fails as its mode says.
type link struct {
	fleet.Client
	mode  atomic.Int64
	evals atomic.Int64
	leads atomic.Bool // the last reply said so
}

const (
	works      = iota
	refuses    // nothing arrives
	loses      // no reply arrives
	losesEvery // every second reply does not arrive
)

func (l *link) Eval(ctx context.Context, script string, keys, args []string) ([]string, error) {
	mode := l.mode.Load()
	if mode == refuses {
		return nil, errors.New("refused")
	}
	reply, err := l.Client.Eval(ctx, script, keys, args)
	l.leads.Store(err == nil && strings.Contains(reply[0], `"leader":true`))
	if mode == loses || mode == losesEvery && l.evals.Add(1)%2 == 0 {
		return nil, errors.New("the reply is lost")
	}
	return reply, err
}

// dial returns a Client of the store at addr.
func dial(t testing.TB, addr string) *fleet.Connection {
	c := fleet.Dial(valkey.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true})
	t.Cleanup(func() { c.Close() })
	return c
}

// A responder is a Base that responds after a delay, with a status that can be
// changed.
type responder struct {
	status   atomic.Int64
	delay    time.Duration
	attempts atomic.Int64
}

func respond(status int, delay time.Duration) *responder {
	r := &responder{delay: delay}
	r.status.Store(int64(status))
	return r
}

func (r *responder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.attempts.Add(1)
	time.Sleep(r.delay)
	return httpfake.Empty(int(r.status.Load()), req), nil
}

// send makes one request, to a host if it is given, and returns how long it
// took.
func send(t testing.TB, tr *awsretry.Transport, hosts ...string) time.Duration {
	t.Helper()
	start := time.Now()
	if err := call(t.Context(), tr, append(hosts, host)[0]); err != nil {
		t.Fatal(err)
	}
	return time.Since(start)
}

func call(ctx context.Context, tr *awsretry.Transport, host string) error {
	_, err := status(ctx, tr, host)
	return err
}

func status(ctx context.Context, tr *awsretry.Transport, host string) (int, error) {
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/", nil)
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

func stateOf(tr *awsretry.Transport) awsretry.State {
	s, _ := tr.State(host)
	return s
}

// atOnce is a Backoff that hardly waits.
var atOnce = awsretry.Decorrelated{Initial: time.Millisecond, Max: time.Millisecond}

// faultLog collects the errors that OnError is called with.
type faultLog struct {
	mu     sync.Mutex
	faults []string
	last   error
}

func (l *faultLog) add(_ string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults, l.last = append(l.faults, err.Error()), err
}

func (l *faultLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.faults...)
}

// eventually fails the test if the condition does not hold within a minute.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute: " + what)
		}
	}
}

// newFleet returns a Fleet with a valid configuration.
func newFleet(t testing.TB, client fleet.Client, c fleet.Config) *fleet.Fleet {
	t.Helper()
	c.Prefix = cmp.Or(c.Prefix, prefix)
	f, err := fleet.New(client, c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
