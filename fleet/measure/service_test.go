package measure_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
)

// A service allows so many requests per second, with a burst.
type service struct {
	start time.Time
	burst float64
	trip  time.Duration

	mu     sync.Mutex
	rate   float64
	tokens float64
	at     time.Time
	sent   []sending // in the order of their times
}

// A sending is a request that came to a service.
type sending struct {
	at       time.Duration // since the start
	process  int
	accepted bool
}

func newService(rate, burst float64) *service {
	now := time.Now()
	return &service{start: now, burst: burst, trip: 10 * time.Millisecond, rate: rate, tokens: burst, at: now}
}

func (s *service) setRate(rate float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill()
	s.rate = rate
	s.tokens = min(s.tokens, s.burst)
}

// refill requires that s.mu is held.
func (s *service) refill() {
	now := time.Now()
	s.tokens = min(s.tokens+now.Sub(s.at).Seconds()*s.rate, s.burst)
	s.at = now
}

// accept reports whether a request of a process is accepted.
func (s *service) accept(process int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill()
	accepted := s.tokens >= 1
	if accepted {
		s.tokens--
	}
	s.sent = append(s.sent, sending{s.at.Sub(s.start), process, accepted})
	return accepted
}

// between returns what came in a time.
func (s *service) between(from, to time.Duration) []sending {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []sending
	for _, x := range s.sent {
		if x.at >= from && x.at < to {
			found = append(found, x)
		}
	}
	return found
}

func (s *service) now() time.Duration { return time.Since(s.start) }

func (s *service) sleepUntil(at time.Duration) { time.Sleep(at - s.now()) }

// from returns the connection of a process to the service.
func (s *service) from(process int) http.RoundTripper { return connection{s, process} }

type connection struct {
	service *service
	process int
}

func (c connection) RoundTrip(req *http.Request) (*http.Response, error) {
	time.Sleep(c.service.trip)
	status := http.StatusOK
	if !c.service.accept(c.process) {
		status = http.StatusTooManyRequests
	}
	return respond(req, status, nil), nil
}

func respond(req *http.Request, status int, header http.Header) *http.Response {
	if header == nil {
		header = make(http.Header)
	}
	return &http.Response{
		StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader("")), Request: req,
	}
}

// ServeHTTP is the service for other processes, which say in a header who they
// are.
func (s *service) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	process, _ := strconv.Atoi(req.Header.Get(processHeader))
	if !s.accept(process) {
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

const processHeader = "X-Process"

// A process is what one process of a fleet does, in a process of its own or in
// the test's.
type process struct {
	shared    *fleet.Fleet
	transport *awsretry.Transport
	cancel    context.CancelFunc
	callers   sync.WaitGroup
	counted   *atomic.Int64 // calls; may be nil

	mu    sync.Mutex
	waits []time.Duration // of the calls that ended
}

// newProcess returns a process that shares nothing if the client is nil.
func newProcess(client fleet.Client, c fleet.Config, base http.RoundTripper, pacing awsretry.Pacing) *process {
	p := &process{transport: &awsretry.Transport{
		Base: base, Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{Pacing: pacing},
	}}
	if client != nil {
		p.shared = fleet.New(client, c)
		p.transport.Shared = p.shared
	}
	return p
}

// A demand is how much a process wants.
type demand struct {
	callers int     // each makes one call after the other
	rate    float64 // of Poisson arrivals, per second, in place of callers
}

// call makes calls until leave.
func (p *process) call(ctx context.Context, url string, d demand) {
	ctx, p.cancel = context.WithCancel(ctx)
	for range d.callers {
		p.callers.Go(func() {
			for ctx.Err() == nil {
				p.callOnce(ctx, url)
			}
		})
	}
	if d.rate > 0 {
		p.callers.Go(func() {
			for sleep(ctx, time.Duration(rand.ExpFloat64()/d.rate*float64(time.Second))) {
				p.callers.Go(func() { p.callOnce(ctx, url) })
			}
		})
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *process) callOnce(ctx context.Context, url string) {
	start := time.Now()
	if p.counted != nil {
		p.counted.Add(1)
	}
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		sleep(ctx, time.Millisecond)
		return
	}
	resp.Body.Close()
	p.mu.Lock()
	p.waits = append(p.waits, time.Since(start))
	p.mu.Unlock()
}

// stop ends the calls; leave ends the membership too.
func (p *process) stop() {
	p.cancel()
	p.callers.Wait()
}

func (p *process) leave() {
	if p.shared != nil {
		p.shared.Close()
	}
	p.stop()
}

// onError returns a Config.OnError that logs.
func onError(t testing.TB) func(string, error) {
	return func(partition string, err error) { t.Logf("%s: %v", partition, err) }
}
