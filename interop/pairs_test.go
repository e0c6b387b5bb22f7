package interop

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
	"example.com/awsretry/simulate/traffic"
)

const (
	pairLength   = 15 * time.Second
	pairReplicas = 3 // the figures are their medians
)

// scenes are services, and the calls that they get.
var scenes = map[string]pairScene{
	"429 at random":            {share: .08, perSecond: 60, timeout: 5 * time.Second},
	"500 at random":            {errors: .1, perSecond: 60},
	"500 and 429 at random":    {errors: .06, share: .06, perSecond: 60},
	"outage":                   {outage: true, perSecond: 60},
	"limit":                    {rate: 40, burst: 10, perSecond: 60, timeout: 5 * time.Second},
	"limit and 500":            {rate: 50, burst: 20, errors: .05, perSecond: 55},
	"limit, Retry-After":       {rate: 50, burst: 20, retryAfter: "1", perSecond: 60},
	"timeouts":                 {slow: .1, perSecond: 60, attemptTimeout: 300 * time.Millisecond},
	"queue":                    {capacity: 60, queue: 20, errors: .15, perSecond: 52},
	"16 callers, limit":        {rate: 50, burst: 50, callers: 16},
	"20 callers, Retry-After":  {rate: 100, burst: 50, retryAfter: "1", callers: 20},
	"20 callers, outage":       {outage: true, callers: 20},
	"20 callers, 429":          {share: .08, callers: 20, think: 200 * time.Millisecond},
	"20 callers, 500 and 429":  {errors: .08, share: .05, callers: 20, think: 200 * time.Millisecond},
	"20 callers, limit, think": {rate: 50, burst: 20, callers: 20, think: 200 * time.Millisecond},
}

// pairs are what TestPairs predicts: of a log with the setting a, the outcome of
// the setting b, where the flags are given. The brief ones run unless all are
// asked for.
var pairs = []struct {
	scene, a, b, flags string
	brief              bool
}{
	{"429 at random", "standard", "adaptive", "", true},
	{"429 at random", "standard", "adaptive", "--timeout 5s", true},
	{"429 at random", "adaptive", "standard", "", true},
	{"429 at random", "adaptive=scaled", "standard", "", false},
	{"429 at random", "standard", "adaptive=scaled", "--timeout 5s", false},
	{"500 at random", "standard", "none", "", true},
	{"500 at random", "none", "standard", "", false},
	{"500 at random", "legacy", "revision2026", "", false},
	{"500 and 429 at random", "standard", "legacy", "", false},
	{"500 and 429 at random", "revision2026", "none", "", false},
	{"outage", "standard", "none", "", false},
	{"outage", "standard", "legacy", "", true},
	{"outage", "revision2026", "standard", "", false},
	{"limit", "standard", "none", "", false},
	{"limit", "standard", "adaptive=scaled", "--timeout 5s", true},
	{"limit", "legacy", "standard", "", false},
	{"limit and 500", "none", "revision2026", "", false},
	{"limit, Retry-After", "standard", "standard+share_retry_after", "", false},
	{"timeouts", "standard", "none", "", false},
	{"timeouts", "none", "standard", "", true},
	{"queue", "standard", "legacy", "", false},
	{"queue", "standard", "legacy", "--set service.capacity=60 --set service.queue=20", false},
	{"16 callers, limit", "adaptive", "standard", "", true},
	{"16 callers, limit", "standard", "adaptive", "", true},
	{"16 callers, limit", "adaptive", "standard", "--callers 16", false},
	{"20 callers, Retry-After", "standard", "standard+share_retry_after", "", true},
	{"20 callers, outage", "standard", "standard+long_poll", "", true},
	{"20 callers, 429", "standard", "adaptive=scaled", "", false},
	{"20 callers, 500 and 429", "standard", "none", "", false},
	{"20 callers, limit, think", "standard", "legacy", "", false},
}

// TestPairs predicts from the log of one setting what another one does, and then
// uses that on the same service. A prediction must be right, or the verdict of
// the log that it is not to be trusted.
func TestPairs(t *testing.T) {
	takesLong(t)
	all := os.Getenv("PAIRS") == "all"
	recorded := map[recordingKey]*[pairReplicas]recording{}
	for _, p := range pairs {
		if p.brief || all {
			recorded[recordingKey{p.scene, p.a}] = new([pairReplicas]recording)
			recorded[recordingKey{p.scene, p.b}] = new([pairReplicas]recording)
		}
	}
	recordAll(t, recorded)

	var report strings.Builder
	table := tabwriter.NewWriter(&report, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "pair\tfailed, predicted\treal\tattempts\treal\tp50\treal\tp99\treal\tverdict\tmissed")
	right, wrong, untrusted := 0, 0, 0
	for _, p := range pairs {
		if !p.brief && !all {
			continue
		}
		name := fmt.Sprintf("%s: %s to %s %s", p.scene, p.a, p.b, p.flags)
		was, is := recorded[recordingKey{p.scene, p.a}], recorded[recordingKey{p.scene, p.b}]
		said := predict(t, was, p.b, p.flags)
		missed := said.missed(realFigures(was), realFigures(is))
		verdict := "reproduces"
		switch {
		case said.off != "":
			verdict = "DOES NOT: " + said.off
			untrusted++
		case len(missed) > 0:
			t.Errorf("%s: missed %s", name, strings.Join(missed, ", "))
			wrong++
		default:
			right++
		}
		real := realFigures(is)
		fmt.Fprintf(table, "%s\t%s\t%s\t%.0f\t%.0f\t%.0f ms\t%.0f ms\t%.0f ms\t%.0f ms\t%s\t%s\n", name,
			said.b.failures(), real.failures(), said.b.attempts, real.attempts, said.b.p50, real.p50, said.b.p99, real.p99,
			verdict, strings.Join(missed, ", "))
	}
	table.Flush()
	t.Logf("%d right, %d wrong, %d not trusted\n%s", right, wrong, untrusted, report.String())
	if sum := right + wrong + untrusted; 3*untrusted > sum {
		t.Errorf("%d of %d predictions are not to be trusted", untrusted, sum)
	}
}

// A pairScene is a service, and the calls that it gets.
type pairScene struct {
	rate, burst     float64 // a token bucket; it refuses with 429
	share           float64 // of the requests that are refused with 429
	retryAfter      string
	errors          float64 // the share of 500
	slow            float64 // the share that takes a second longer
	outage          bool    // 503 from two fifths to three fifths of the time
	capacity, queue float64 // requests per second, and how many wait; 503 beyond

	perSecond               float64 // calls that do not wait for each other; 0: callers
	callers                 int
	think                   time.Duration
	timeout, attemptTimeout time.Duration
}

// A sceneService is a service that runs.
type sceneService struct {
	pairScene
	begin time.Time

	mu           sync.Mutex // guards the fields below
	tokens, work float64
	at           time.Time // of these
}

// ServeHTTP has the network's time first.
func (s *sceneService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const network, median = 30 * time.Millisecond, 30 * time.Millisecond
	time.Sleep(network)
	status, wait := s.admit(time.Now())
	switch {
	case status == http.StatusTooManyRequests && s.retryAfter != "":
		w.Header().Set("Retry-After", s.retryAfter)
	case status == http.StatusOK:
		wait += time.Duration(math.Exp(0.3*rand.NormFloat64()) * float64(median))
		if rand.Float64() < s.slow {
			wait += time.Second
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
func (s *sceneService) admit(now time.Time) (status int, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	passed := now.Sub(s.at).Seconds()
	s.at = now
	s.tokens = min(s.tokens+passed*s.rate, s.burst)
	s.work = max(s.work-passed*s.capacity, 0)
	since := now.Sub(s.begin)
	switch {
	case s.outage && since > 2*pairLength/5 && since < 3*pairLength/5, s.capacity > 0 && s.work > s.queue:
		return http.StatusServiceUnavailable, 0
	case rand.Float64() < s.share, s.rate > 0 && s.tokens < 1:
		return http.StatusTooManyRequests, 0
	}
	s.tokens--
	if s.capacity > 0 {
		s.work++
		wait = time.Duration(s.work / s.capacity * float64(time.Second))
	}
	return http.StatusOK, wait
}

// figures are what is compared, of one setting.
type figures struct {
	failed   float64 // share of the calls that ended
	unended  float64 // share of the calls
	attempts float64
	p50, p99 float64 // ms
}

func (f figures) failures() string {
	if f.unended > 0.01 {
		return fmt.Sprintf("%.1f %%, %.0f %% unended", 100*f.failed, 100*f.unended)
	}
	return fmt.Sprintf("%.1f %%", 100*f.failed)
}

func medians(all []figures) figures {
	of := func(figure func(figures) float64) float64 {
		var values []float64
		for _, f := range all {
			values = append(values, figure(f))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return figures{
		of(func(f figures) float64 { return f.failed }), of(func(f figures) float64 { return f.unended }),
		of(func(f figures) float64 { return f.attempts }), of(func(f figures) float64 { return f.p50 }),
		of(func(f figures) float64 { return f.p99 }),
	}
}

// A recordingKey is a scene with a setting.
type recordingKey struct{ scene, setting string }

// A recording is what a Transport logged, and what its callers saw.
type recording struct {
	log bytes.Buffer
	figures
}

func realFigures(replicas *[pairReplicas]recording) figures {
	var all []figures
	for i := range replicas {
		all = append(all, replicas[i].figures)
	}
	return medians(all)
}

// recordAll makes the recordings, as many at a time as leave the machine idle
// most of the time.
func recordAll(t *testing.T, recorded map[recordingKey]*[pairReplicas]recording) {
	atATime := make(chan struct{}, 36)
	var all sync.WaitGroup
	for key, replicas := range recorded {
		setting, err := scenario.ParseSetting(key.setting)
		if err != nil {
			t.Fatal(err)
		}
		for i := range replicas {
			all.Go(func() {
				atATime <- struct{}{}
				defer func() { <-atATime }()
				replicas[i].record(t, scenes[key.scene], setting, uint64(i))
			})
		}
	}
	all.Wait()
}

// transportOf returns the Transport that is simulated as a setting.
func transportOf(s scenario.Setting) *awsretry.Transport {
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
	if s.Pacing == awsretry.ScaledPacing.String() {
		tr.RateLimit.Pacing = awsretry.ScaledPacing
	}
	if s.LongPoll {
		tr.LongPoll = func(*http.Request) bool { return true }
	}
	return tr
}

// record calls a service of its own. Calls that the end of the time interrupts
// are unended, and the log does not have their end.
func (r *recording) record(t *testing.T, s pairScene, setting scenario.Setting, seed uint64) {
	service := &sceneService{pairScene: s, begin: time.Now(), at: time.Now(), tokens: s.burst}
	server := httptest.NewServer(service)
	defer server.Close()
	pool := &http.Transport{MaxIdleConnsPerHost: 1000}
	defer pool.CloseIdleConnections()
	end := service.begin.Add(pairLength)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(time.Until(end), cancel) // a deadline would change what the Transport does

	tr, attempts := transportOf(setting), 0
	var mu sync.Mutex // guards attempts and the variables of a call
	tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
		mu.Lock()
		attempts++
		mu.Unlock()
		return pool.RoundTrip(req)
	})
	tr.AttemptTimeout = s.attemptTimeout
	tr.Observe = awsretry.LogAllTo(slog.New(slog.NewJSONHandler(untilEnd{&r.log, ctx}, &slog.HandlerOptions{Level: slog.LevelDebug})))

	var took, unended []time.Duration
	failed := 0
	call := func() {
		called := time.Now()
		own := ctx
		if s.timeout > 0 {
			var cancel func()
			own, cancel = context.WithTimeout(ctx, s.timeout)
			defer cancel()
		}
		resp, err := tr.RoundTrip(newRequest(t, own, http.MethodGet, server.URL, nil))
		if err == nil {
			io.Copy(io.Discard, resp.Body)
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
	random := rand.New(rand.NewPCG(seed, 1)) // the same calls for each setting
	exponential := func(r *rand.Rand, mean float64) time.Duration {
		return time.Duration(r.ExpFloat64() * mean * float64(time.Second))
	}
	var calls sync.WaitGroup
	for n := range s.callers {
		calls.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(n)))
			for ctx.Err() == nil {
				sleep(ctx, exponential(random, s.think.Seconds()))
				call()
			}
		})
	}
	for at := service.begin; s.perSecond > 0; {
		at = at.Add(exponential(random, 1/s.perSecond))
		if !at.Before(end) {
			break
		}
		time.Sleep(time.Until(at))
		calls.Go(call)
	}
	calls.Wait()

	n := float64(len(took) + failed + len(unended))
	r.figures = figures{
		failed: float64(failed) / float64(max(len(took)+failed, 1)), unended: float64(len(unended)) / n,
		attempts: float64(attempts),
	}
	if r.unended < 0.01 {
		unended = nil // as in a simulation
	}
	r.p50, r.p99 = percentile(took, unended, 0.5), percentile(took, unended, 0.99)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// untilEnd writes until a context ends.
type untilEnd struct {
	io.Writer
	ctx context.Context
}

func (w untilEnd) Write(line []byte) (int, error) {
	if w.ctx.Err() != nil {
		return len(line), nil
	}
	return w.Writer.Write(line)
}

// percentile is that of simulate.Outcome, in milliseconds.
func percentile(known, atLeast []time.Duration, p float64) float64 {
	slices.Sort(known)
	left, above, last := len(known)+len(atLeast), 1.0, time.Duration(0)
	for _, d := range known {
		lost := 0
		for _, u := range atLeast {
			if u >= last && u < d {
				lost++
			}
		}
		left -= lost
		above *= 1 - 1/float64(left)
		left--
		if last = d; above <= 1-p {
			break
		}
	}
	return float64(last) / float64(time.Millisecond)
}

// A prediction is the simulation of the present setting and of another one.
type prediction struct {
	a, b figures
	off  string // why it is not to be trusted
}

// predict does with each log what awsretry simulate --from does.
func predict(t *testing.T, logs *[pairReplicas]recording, setting, line string) prediction {
	b, err := scenario.ParseSetting(setting)
	if err != nil {
		t.Fatal(err)
	}
	var known traffic.Known
	var sets []string
	flags := flag.NewFlagSet("awsretry simulate", flag.PanicOnError)
	flags.IntVar(&known.Callers, "callers", 0, "")
	flags.DurationVar(&known.Timeout, "timeout", 0, "")
	flags.Func("set", "", func(set string) error { sets = append(sets, set); return nil })
	flags.Parse(strings.Fields(line))
	var as, bs []figures
	var off []string
	for i := range logs {
		log, err := traffic.Read(t.Context(), bytes.NewReader(logs[i].log.Bytes()), traffic.Options{Known: known})
		if err != nil {
			t.Fatal(err)
		}
		fitted, err := log.Fit(0)
		if err != nil {
			t.Fatal(err)
		}
		s := fitted.Scenario
		for _, set := range sets {
			path, value, _ := strings.Cut(set, "=")
			if s, err = scenario.Set(s, path, value); err != nil {
				t.Fatal(err)
			}
		}
		s.Settings = []scenario.Setting{s.Settings[0], b}
		result, err := simulate.Run(t.Context(), s, simulate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		as, bs = append(as, simulated(result.Outcomes[0])), append(bs, simulated(result.Outcomes[1]))
		if why := fitted.Off(result.Outcomes[0]); len(why) > 0 {
			off = append(off, strings.Join(why, ", "))
		}
	}
	p := prediction{a: medians(as), b: medians(bs)}
	if 2*len(off) > pairReplicas {
		p.off = off[0]
	}
	return p
}

func simulated(o simulate.Outcome) figures {
	ms := func(s simulate.Span) float64 { return float64(s) / float64(time.Millisecond) }
	return figures{o.FailedShare, o.UnfinishedShare(), float64(o.Attempts), ms(o.P50), ms(o.P99)}
}

// missed returns what a prediction is wrong about, if the two settings really
// have these figures. Of calls that do not end the simulation says that they may
// fail or not, and that the times are at least as long.
func (p prediction) missed(a, b figures) (what []string) {
	is := p.b
	if is.unended > b.unended+0.03 {
		ended := 1 - is.unended
		is.failed = min(max(b.failed, is.failed*ended), is.failed*ended+is.unended)
		is.p50, is.p99 = max(is.p50, b.p50), max(is.p99, b.p99)
	}
	change, real := is.failed-p.a.failed, b.failed-a.failed
	if cmp.Compare(change, 0) != cmp.Compare(real, 0) && math.Abs(change-real) > 0.03 {
		what = append(what, "sign")
	}
	if math.Abs(is.failed-b.failed) > 0.03 {
		what = append(what, "failed")
	}
	for _, figure := range []struct {
		name               string
		is, was, tolerance float64
	}{
		{"attempts", is.attempts, b.attempts, 0.05}, {"p50", is.p50, b.p50, 0.25}, {"p99", is.p99, b.p99, 0.25},
	} {
		if math.Abs(figure.is-figure.was) > figure.tolerance*figure.was {
			what = append(what, figure.name)
		}
	}
	return what
}
