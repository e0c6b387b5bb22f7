package interop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/simulate/scenario"
)

const recordingLength = 20 * time.Second

// A pairScene is a service, and the calls that it gets.
type pairScene struct {
	share           float64 // of the requests that are refused with 429
	rate, burst     float64 // of a token bucket; 429 beyond
	retryAfter      string
	errors          float64 // the share of 500
	slow            float64 // the share that takes two seconds longer
	outage          bool    // 503 for the middle half of the time
	capacity, queue float64 // requests per second, and how many wait; 503 beyond

	perSecond               float64 // calls at random instants; 0: callers
	callers                 int
	think                   time.Duration
	timeout, attemptTimeout time.Duration
}

// A pairService is the service of a scene.
type pairService struct {
	pairScene
	begin time.Time

	mu           sync.Mutex // guards the fields below
	tokens, work float64    // of the bucket; in the queue
	at           time.Time  // of these
}

func (s *pairService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const network, median = 50 * time.Millisecond, 30 * time.Millisecond
	time.Sleep(network)
	status, wait := s.admit(time.Now())
	if status == http.StatusTooManyRequests && s.retryAfter != "" {
		w.Header().Set("Retry-After", s.retryAfter)
	}
	if status == http.StatusOK {
		wait += time.Duration(math.Exp(0.3*rand.NormFloat64()) * float64(median))
		if rand.Float64() < s.slow {
			wait += 2 * time.Second
		}
		if rand.Float64() < s.errors {
			status = http.StatusInternalServerError
		}
		time.Sleep(wait)
	}
	w.WriteHeader(status)
}

// admit returns 200 for a request that the service works on, and how long that
// waits in the queue.
func (s *pairService) admit(now time.Time) (status int, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	passed, since := now.Sub(s.at).Seconds(), now.Sub(s.begin)
	s.at = now
	s.tokens = min(s.tokens+passed*s.rate, s.burst)
	s.work = max(s.work-passed*s.capacity, 0)
	switch {
	case s.outage && since > recordingLength/4 && since < recordingLength*3/4:
		return http.StatusServiceUnavailable, 0
	case rand.Float64() < s.share, s.rate > 0 && s.tokens < 1:
		return http.StatusTooManyRequests, 0
	case s.capacity > 0 && s.work > s.queue:
		return http.StatusServiceUnavailable, 0
	}
	s.tokens--
	if s.capacity > 0 {
		s.work++
		wait = time.Duration(s.work / s.capacity * float64(time.Second))
	}
	return http.StatusOK, wait
}

// recordings are what was recorded of scenes with settings.
type recordings map[recordingOf][]*recording

type recordingOf struct{ scene, setting string }

// A recording is what a Transport logged, and what its callers saw.
type recording struct {
	log bytes.Buffer
	figures
}

// figures are what a prediction is about.
type figures struct {
	failed   float64 // share of the calls that ended
	unended  float64 // share of the calls
	attempts float64
	p50, p99 float64 // ms
}

func (f figures) failures() string {
	if f.unended >= 0.02 {
		return fmt.Sprintf("%.1f%% (%.0f%% unended)", 100*f.failed, 100*f.unended)
	}
	return fmt.Sprintf("%.1f%%", 100*f.failed)
}

func (r recordings) figures(scene, setting string) (all []figures) {
	for _, one := range r[recordingOf{scene, setting}] {
		all = append(all, one.figures)
	}
	return all
}

// quantile returns a quantile of each figure.
func quantile(all []figures, p float64) figures {
	of := func(figure func(figures) float64) float64 {
		var values []float64
		for _, f := range all {
			values = append(values, figure(f))
		}
		if len(values) == 0 {
			return 0
		}
		slices.Sort(values)
		return values[int(p*float64(len(values)-1)+0.5)]
	}
	return figures{
		of(func(f figures) float64 { return f.failed }), of(func(f figures) float64 { return f.unended }),
		of(func(f figures) float64 { return f.attempts }),
		of(func(f figures) float64 { return f.p50 }), of(func(f figures) float64 { return f.p99 }),
	}
}

// add records the scenes of some pairs a number of times, as many at a time as
// leave the machine idle most of the time. It returns the share of the time that
// timers were late by more than 25 ms.
func (r recordings) add(t *testing.T, pairs []*pair, times int) (stalled float64) {
	atATime := make(chan struct{}, 40)
	var all sync.WaitGroup
	added := map[recordingOf]bool{}
	for _, p := range pairs {
		for _, of := range []recordingOf{{p.scene, p.a}, {p.scene, p.b}} {
			if added[of] {
				continue
			}
			added[of] = true
			for range times {
				one, seed := new(recording), uint64(len(r[of]))
				r[of] = append(r[of], one)
				all.Go(func() {
					atATime <- struct{}{}
					defer func() { <-atATime }()
					one.record(t, pairScenes[of.scene], of.setting, seed)
				})
			}
		}
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	const tick, most = 5 * time.Millisecond, 25 * time.Millisecond
	begin := time.Now()
	for {
		at := time.Now()
		select {
		case <-ended:
			return stalled / time.Since(begin).Seconds()
		case <-time.After(tick):
			if late := time.Since(at) - tick; late > most {
				stalled += late.Seconds()
			}
		}
	}
}

// pairTransport returns the Transport that is simulated as a setting.
func pairTransport(t *testing.T, short string) *awsretry.Transport {
	s, err := scenario.ParseSetting(short)
	if err != nil {
		t.Error(err)
	}
	tr := &awsretry.Transport{ShareRetryAfter: s.ShareRetryAfter}
	switch s.Use {
	case scenario.UseNone:
		tr.MaxAttempts = 1
	case scenario.UseLegacy:
		tr.Mode = awsretry.Legacy
	case scenario.UseAdaptive:
		tr.Mode = awsretry.Adaptive
	case scenario.UseRevision2026:
		tr.Revision = awsretry.Revision2026
	}
	if s.Pacing != "" {
		tr.RateLimit.Pacing = awsretry.ScaledPacing
	}
	if s.LongPoll {
		tr.LongPoll = func(*http.Request) bool { return true }
	}
	return tr
}

// record calls a service of its own. Calls that the end of the recording
// interrupts are unended, and the log does not have their end.
func (r *recording) record(t *testing.T, scene pairScene, setting string, seed uint64) {
	service := &pairService{pairScene: scene, begin: time.Now(), at: time.Now(), tokens: scene.burst}
	server := httptest.NewUnstartedServer(service)
	server.Config.ErrorLog = quiet
	server.Start()
	defer server.Close()
	pool := &http.Transport{MaxIdleConnsPerHost: 100, MaxConnsPerHost: 100} // or a machine that stalls opens thousands
	defer pool.CloseIdleConnections()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	end := service.begin.Add(recordingLength)
	time.AfterFunc(time.Until(end), cancel) // the Transport would heed a deadline

	var mu sync.Mutex // guards the variables below
	attempts, failed := 0, 0
	var took, unended []time.Duration
	tr := pairTransport(t, setting)
	tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
		mu.Lock()
		attempts++
		mu.Unlock()
		return pool.RoundTrip(req)
	})
	tr.AttemptTimeout = scene.attemptTimeout
	tr.Observe = awsretry.LogAllTo(slog.New(slog.NewJSONHandler(
		untilEnd{ctx, &r.log}, &slog.HandlerOptions{Level: slog.LevelDebug})))
	call := func() {
		called, own := time.Now(), ctx
		if scene.timeout > 0 {
			var cancel func()
			own, cancel = context.WithTimeout(ctx, scene.timeout)
			defer cancel()
		}
		resp, err := tr.RoundTrip(newRequest(t, own, http.MethodGet, server.URL, nil))
		if err == nil {
			resp.Body.Close()
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case ctx.Err() != nil:
			unended = append(unended, end.Sub(called))
		case err != nil || resp.StatusCode >= 400:
			failed++
		default:
			took = append(took, time.Since(called))
		}
	}
	var calls sync.WaitGroup
	for n := range scene.callers {
		calls.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(n)))
			for ctx.Err() == nil {
				think := time.NewTimer(time.Duration(random.ExpFloat64() * float64(scene.think)))
				select {
				case <-think.C:
					call()
				case <-ctx.Done():
				}
			}
		})
	}
	arrivals := rand.New(rand.NewPCG(seed, 0)) // the same ones with each setting
	for at := service.begin; scene.perSecond > 0; calls.Go(call) {
		at = at.Add(time.Duration(arrivals.ExpFloat64() / scene.perSecond * float64(time.Second)))
		if !at.Before(end) {
			break
		}
		time.Sleep(time.Until(at))
	}
	calls.Wait()

	ended := len(took) + failed
	r.figures = figures{
		failed: float64(failed) / float64(max(ended, 1)), unended: float64(len(unended)) / float64(ended+len(unended)),
		attempts: float64(attempts),
	}
	if r.unended <= 0.01 {
		unended = nil // as in a simulation
	}
	r.p50, r.p99 = atLeast(took, unended, 0.5), atLeast(took, unended, 0.99)
}

// untilEnd writes until a context ends.
type untilEnd struct {
	ctx context.Context
	io.Writer
}

func (w untilEnd) Write(line []byte) (int, error) {
	if w.ctx.Err() != nil {
		return len(line), nil
	}
	return w.Writer.Write(line)
}

// atLeast returns a percentile in milliseconds as simulate.Outcome has it: of the
// times of unended calls only the least is known.
func atLeast(took, unended []time.Duration, p float64) float64 {
	slices.Sort(took)
	above, last := 1.0, time.Duration(0)
	for i, d := range took {
		left := len(took) - i
		for _, u := range unended {
			if u >= d {
				left++
			}
		}
		above *= 1 - 1/float64(left)
		if last = d; above <= 1-p {
			break
		}
	}
	return float64(last) / float64(time.Millisecond)
}
