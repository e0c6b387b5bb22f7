package awsretry_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/admission"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/pacer"
)

// A stub responds with one status after another, again and again, without a
// body and without an allocation.
type stub struct {
	responses []*http.Response
	n         int
}

func (s *stub) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}
	resp := s.responses[s.n%len(s.responses)]
	s.n++
	resp.Body, resp.Request = http.NoBody, req
	return resp, nil
}

func answering(statuses ...int) *stub {
	s := new(stub)
	for _, status := range statuses {
		s.responses = append(s.responses, &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody})
	}
	return s
}

func noPause(int, awsretry.Class, time.Duration) time.Duration { return 0 }

// newRequest returns a request with a deadline. Without one, a request over a
// Base that is not an http.Transport costs more, see BenchmarkForeignBase.
func newRequest(tb testing.TB, method string, body io.Reader) *http.Request {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	tb.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, "http://service.example/path", body)
	if err != nil {
		tb.Fatal(err)
	}
	return req
}

func BenchmarkGet(b *testing.B) {
	get := newRequest(b, "GET", nil)
	for _, c := range []struct {
		name string
		rt   http.RoundTripper
		req  *http.Request
	}{
		{"stub alone", answering(200), get},
		{"awsretry", &transport{Base: answering(200)}, get},
		{"awsretry, Timeout of http.Client", &transport{Base: answering(200)}, fromClient(b)},
		{"IdempotentOnly", &transport{Base: answering(200), Policy: awsretry.IdempotentOnly(nil)}, get},
		{"adaptive", &transport{Base: answering(200), Mode: awsretry.Adaptive}, get},
		{"adaptive, scaled, limiting", limiting(b, awsretry.ScaledPacing), get},
		{"adaptive, shared", &transport{Base: answering(200), Mode: awsretry.Adaptive, Shared: enough(false)}, get},
		{"adaptive, limits", announcing(), get},
	} {
		b.Run(c.name, func(b *testing.B) { benchmark(b, c.rt, c.req, nil) })
	}
}

// fromClient returns a request as an http.Client with a Timeout sends it.
func fromClient(tb testing.TB) *http.Request {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Hour)
	tb.Cleanup(cancel)
	req := newRequest(tb, "GET", nil).WithContext(ctx)
	req.Cancel = make(chan struct{})
	return req
}

// limiting returns a Transport whose rate limiter limits, and never runs out of
// send tokens.
func limiting(tb testing.TB, pacing awsretry.Pacing) *transport {
	tb.Helper()
	plenty := awsretry.RateLimitConfig{Pacing: pacing}
	plenty.MinFillRate, plenty.MinCapacity = 1e15, 1e9
	base := answering(429)
	tr := &transport{Base: base, Mode: awsretry.Adaptive, MaxAttempts: 1, RateLimit: plenty}
	if _, err := tr.RoundTrip(newRequest(tb, "GET", nil)); err != nil {
		tb.Fatal(err)
	}
	if state, ok := tr.State("service.example"); !ok || !state.Limited {
		tb.Fatalf("%+v: it does not limit", state)
	}
	*base = *answering(200)
	return tr
}

// announcing returns a Transport that reads limits, which are never used up.
func announcing() *transport {
	base := answering(200)
	header := base.responses[0].Header
	header.Set("Date", "Mon, 02 Jan 2006 15:04:05 GMT")
	header.Set("X-RateLimit-Limit", "5000")
	header.Set("X-RateLimit-Remaining", "4999")
	header.Set("X-RateLimit-Reset", "60")
	limits := awsretry.RateLimitConfig{Limits: awsretry.ReadLimits}
	return &transport{Base: base, Mode: awsretry.Adaptive, RateLimit: limits}
}

// enough is a lease whose rate is never used up. A limited one began with a cut.
func enough(limited bool) granting {
	grant := pacer.Grant{Until: time.Now().Add(time.Hour), Limited: limited, Members: 20}
	if limited {
		grant.Rate, grant.Burst, grant.FleetRate = 1e9, time.Second, 2e10
	}
	return granting(grant)
}

// granting is a Shared that grants what each partition needs.
type granting pacer.Grant

func (g granting) Join(share *admission.Share) { share.Grant(pacer.Grant(g)) }
func (granting) Validate(awsretry.Mode) error  { return nil }
func (granting) FirstRate() float64            { return 0 }

// BenchmarkForeignBase measures what an attempt's own context costs, which it
// has over a Base that is not an http.Transport if the caller has no deadline:
//
//	go test -run - -bench ForeignBase -count 10 . | benchstat -col /context -
func BenchmarkForeignBase(b *testing.B) {
	req := newRequest(b, "GET", nil)
	cancelable, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, base := range []struct {
		name string
		httpfake.Base
	}{{"stub", withBody(answering(200))}, {"derives", deriving(withBody(answering(200)))}} {
		for _, ctx := range []struct {
			name string
			context.Context
		}{{"caller", req.Context()}, {"own", context.Background()}, {"own-cancelable", cancelable}} {
			b.Run("base="+base.name+"/context="+ctx.name, func(b *testing.B) {
				benchmark(b, &transport{Base: base.Base}, req.WithContext(ctx), nil)
			})
		}
	}
}

// deriving returns a Base that derives contexts as otelhttp and net/http do.
func deriving(base httpfake.Base) httpfake.Base {
	type key struct{}
	return func(req *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithCancelCause(context.WithValue(req.Context(), key{}, 1))
		defer cancel(nil)
		return base(req.WithContext(ctx))
	}
}

// withBody gives the responses of s a body that is not http.NoBody.
func withBody(s *stub) httpfake.Base {
	body := io.NopCloser(httpfake.Zeros)
	return func(req *http.Request) (*http.Response, error) {
		resp, err := s.RoundTrip(req)
		resp.Body, resp.ContentLength = body, -1
		return resp, err
	}
}

func BenchmarkPost(b *testing.B) {
	content := make([]byte, 1024)
	payload := bytes.NewReader(content)
	req := newRequest(b, "POST", payload)
	benchmark(b, &transport{Base: answering(200)}, req, func() { payload.Reset(content) })
}

func BenchmarkRetry(b *testing.B) {
	tr := &transport{Base: answering(503, 200), Backoff: awsretry.BackoffFunc(noPause)}
	benchmark(b, tr, newRequest(b, "GET", nil), nil)
}

func benchmark(b *testing.B, rt http.RoundTripper, req *http.Request, rewind func()) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if rewind != nil {
			rewind()
		}
		resp, err := rt.RoundTrip(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(resp, err)
		}
		resp.Body.Close()
	}
}

// allocations returns how many allocations the requests cost together.
func allocations(t *testing.T, tr *transport, reqs ...*http.Request) float64 {
	t.Helper()
	return testing.AllocsPerRun(1000, func() {
		for _, req := range reqs {
			if resp, err := tr.RoundTrip(req); err != nil || resp.StatusCode != 200 {
				t.Fatal(resp, err)
			}
		}
	})
}

// The first attempt of a successful request allocates nothing.
func TestNoAllocations(t *testing.T) {
	to := func(host string) *http.Request {
		req := newRequest(t, "GET", nil)
		req.URL.Host = host
		return req
	}
	pooled := new(http.Transport)
	pooled.RegisterProtocol("http", answering(200))
	get, post := newRequest(t, "GET", nil), newRequest(t, "POST", strings.NewReader("x"))
	endless := get.WithContext(context.Background())
	optional := get.WithContext(awsretry.WithPartition(get.Context(), "p"))
	const adaptive = awsretry.Adaptive
	for _, tt := range []struct {
		name string
		tr   *transport
		req  *http.Request
	}{
		{"GET", &transport{}, get},
		{"POST", &transport{}, post},
		{"host in capitals", &transport{}, to("SERVICE.example")},
		{"http.Client with a Timeout", &transport{}, fromClient(t)},
		{"http.Transport, no deadline", &transport{Base: pooled}, endless},
		{"no retry, no deadline", &transport{MaxAttempts: 1}, endless},
		{"options", &transport{}, optional},
		{"IdempotentOnly, GET", &transport{Policy: awsretry.IdempotentOnly(nil)}, get},
		{"IdempotentOnly, POST", &transport{Policy: awsretry.IdempotentOnly(nil)}, post},
		{"Partition", &transport{Partition: func(*http.Request) string { return "p" }}, get},
		{"observed", &transport{Observe: func(awsretry.Attempt) {}}, get},
		{"quota with a refill", &transport{Quota: quota{RefillPerSecond: 1}}, get},
		{"quota with a line", &transport{Quota: quota{RefillPerSecond: 1, Wait: true}}, get},
		{"adaptive", &transport{Mode: adaptive}, get},
		{"limiting", limiting(t, awsretry.CubicPacing), get},
		{"scaled and limiting", limiting(t, awsretry.ScaledPacing), get},
		{"shared", &transport{Mode: adaptive, Shared: enough(false)}, get},
		{"shared and limiting", &transport{Mode: adaptive, Shared: enough(true)}, get},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.tr.Base == nil {
				tt.tr.Base = answering(200)
			}
			if got := allocations(t, tt.tr, tt.req); got != 0 {
				t.Errorf("%v allocations", got)
			}
		})
	}
	if got := allocations(t, &transport{Base: answering(200)}, get, to("other.example")); got != 0 {
		t.Errorf("two hosts: %v allocations", got)
	}
}

// Limits that are read cost at most two allocations a response, and one more if
// their cost is told. Resume costs one for the body of a GET: the body that is
// continued, or says why it is not. Its own context costs an attempt three:
// itself with the copy of the request, and a context that can be canceled, with
// its cancel function.
func TestAllocations(t *testing.T) {
	told := announcing()
	told.RateLimit.Cost = func(*http.Request, string) float64 { return 1 }
	strong, weak := answering(200), answering(200)
	strong.responses[0].Header.Set("ETag", `"strong"`)
	weak.responses[0].Header.Set("ETag", `W/"weak"`)
	for _, tt := range []struct {
		name string
		tr   *transport
		most float64
	}{
		{"limits", announcing(), 2},
		{"limits with their cost", told, 3},
		{"resume", &transport{Resume: true, Base: withBody(strong)}, 1},
		{"resume without a strong ETag", &transport{Resume: true, Base: withBody(weak)}, 1},
	} {
		if got := allocations(t, tt.tr, newRequest(t, "GET", nil)); got > tt.most {
			t.Errorf("%s: %v allocations, want %v", tt.name, got, tt.most)
		}
	}
	endless := newRequest(t, "GET", nil).WithContext(context.Background())
	if got := allocations(t, &transport{Base: withBody(answering(200))}, endless); got > 3 {
		t.Errorf("an attempt with a context of its own: %v allocations, want 3", got)
	}
	resp, err := (&transport{Resume: true, Base: withBody(strong)}).RoundTrip(newRequest(t, "GET", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	p := make([]byte, 100)
	if got := testing.AllocsPerRun(1000, func() { resp.Body.Read(p) }); got != 0 {
		t.Errorf("a Read of such a body: %v allocations", got)
	}
}

// A retry that a shared bucket pays for allocates what any other one does.
func TestAllocationsOfASharedRetry(t *testing.T) {
	of := func(shared awsretry.Shared) float64 {
		tr := &transport{Base: answering(503, 200), Backoff: awsretry.BackoffFunc(noPause), Shared: shared}
		return allocations(t, tr, newRequest(t, "GET", nil))
	}
	if shared, alone := of(enough(false)), of(nil); shared != alone {
		t.Errorf("%v allocations, and %v without sharing", shared, alone)
	}
}

// A first attempt that no one observes is not timed. A reading of the clock
// cannot be seen in virtual time, but the record without a Start can.
func TestFirstAttemptIsNotTimed(t *testing.T) {
	tr := &transport{Base: answering(503), MaxAttempts: 1}
	resp, err := tr.RoundTrip(newRequest(t, "GET", nil))
	if err != nil {
		t.Fatal(err)
	}
	if record, ok := awsretry.Outcome(resp); !ok || !record.Start.IsZero() {
		t.Errorf("%+v", record)
	}
}

// A countingContext counts its look-ups.
type countingContext struct {
	context.Context
	lookups *int
}

func (c countingContext) Value(key any) any {
	*c.lookups++
	return c.Context.Value(key)
}

// A request costs one context look-up for all that the With functions set.
func TestOneContextLookUp(t *testing.T) {
	bare := newRequest(t, "GET", nil)
	for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Adaptive} {
		for _, ctx := range []context.Context{bare.Context(), awsretry.WithPartition(bare.Context(), "p")} {
			lookups := 0
			tr := &transport{Mode: mode, Base: answering(200)}
			// The first request starts the Transport.
			for _, ctx := range []context.Context{ctx, countingContext{ctx, &lookups}} {
				if _, err := tr.RoundTrip(bare.WithContext(ctx)); err != nil {
					t.Fatal(err)
				}
			}
			if lookups != 1 {
				t.Errorf("%s, %v: %d look-ups", mode, ctx, lookups)
			}
		}
	}
}
