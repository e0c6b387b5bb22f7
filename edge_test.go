package awsretry_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

// A retry over a connection of its own speaks HTTP/1.1 there, whatever else the node behind the name can.
func TestRetryMeetsANodeThatSpeaksHTTP2(t *testing.T) {
	var conns atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	srv.EnableHTTP2, srv.TLS, srv.Config.ErrorLog = true, &tls.Config{}, log.New(io.Discard, "", 0)
	srv.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := srv.TLS.Clone()
		c.GetConfigForClient, c.NextProtos = nil, []string{"h2", "http/1.1"}
		if conns.Add(1) == 1 {
			c.NextProtos = []string{"http/1.1"}
		}
		return c, nil
	}
	srv.StartTLS()
	defer srv.Close()
	tr := &awsretry.Transport{Base: srv.Client().Transport, Backoff: awsretry.BackoffFunc(noPause)}
	req, err := http.NewRequest("GET", srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if conns.Load() != 3 || resp.StatusCode != 503 {
		t.Errorf("%s over %d connections", resp.Status, conns.Load())
	}
}

// slowly gives one part of a body every so often.
type slowly struct {
	parts []string
	every time.Duration
}

func (s *slowly) Read(p []byte) (int, error) {
	time.Sleep(s.every)
	if len(s.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.parts[0])
	s.parts = s.parts[1:]
	return n, nil
}

func (*slowly) Close() error { return nil }

// A producer that takes longer for a Read than a second keeps its retry where the pause is as long.
func TestSlowProducerIsWaitedFor(t *testing.T) {
	for _, tt := range []struct {
		name  string
		first func() (*http.Response, error)
		pause time.Duration
		want  int // 0: the transport's error
	}{
		{"transport error, long pause", func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, 5 * time.Second, 200},
		{"transport error, short pause", func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, 0, 0},
		{"answer, long pause", func() (*http.Response, error) { return answer(503, ""), nil }, 5 * time.Second, 200},
		{"answer, short pause", func() (*http.Response, error) { return answer(503, ""), nil }, 0, 503},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				tr := &awsretry.Transport{Backoff: awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return tt.pause })}
				tr.Base = rawBase(func(req *http.Request) (*http.Response, error) {
					if n++; n == 1 {
						go func() { io.Copy(io.Discard, req.Body); req.Body.Close() }()
						time.Sleep(100 * time.Millisecond)
						return tt.first()
					}
					body, err := io.ReadAll(req.Body)
					req.Body.Close()
					return answer(200, string(body)), err
				})
				start := time.Now()
				resp, err := tr.RoundTrip(newRequest(t, "PUT", &slowly{[]string{"one", "two", "three"}, 3 * time.Second}))
				took := time.Since(start)
				time.Sleep(time.Minute) // for the Base of an answer that went back
				if tt.want == 0 {
					if !errors.Is(err, io.ErrUnexpectedEOF) || stopOf(resp, err) != awsretry.StopBody || took > 1100*time.Millisecond {
						t.Errorf("%v, %v after %v", resp, err, took)
					}
					return
				}
				if err != nil || resp.StatusCode != tt.want {
					t.Fatal(resp, err)
				}
				if body, _ := io.ReadAll(resp.Body); tt.want == 200 && string(body) != "onetwothree" {
					t.Errorf("the retry sent %q", body)
				}
				// Four Reads of 3 s; the pause went by while the first was waited for, but for what was left of it.
				if want := 12 * time.Second; tt.want == 200 && took < want {
					t.Errorf("took %v, want %v at least", took, want)
				}
			})
		})
	}
}

type rawBase func(*http.Request) (*http.Response, error)

func (f rawBase) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A 200 is waited for only while it may be one of S3's error documents.
func TestStreamedAnswersAreNotWaitedFor(t *testing.T) {
	for body, want := range map[string]time.Duration{
		`{"progress":1}`: 0,
		"":               time.Hour, // no Read may be under way when the response is returned
		"<html>":         0,
		"<?xml version=\"1.0\"?>\n<CopyObjectResult>": 0,
		"<?xml version=\"1.0\"?>\n<!-- wait -->":      time.Hour,
		" \n ":                                        time.Hour,
		"<Err":                                        time.Hour,
	} {
		t.Run(body, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				tr := &awsretry.Transport{Base: roundTripper(func(r *http.Request) (*http.Response, error) {
					pr, pw := io.Pipe()
					go func() {
						io.WriteString(pw, body)
						<-r.Context().Done()
						pw.CloseWithError(r.Context().Err())
					}()
					resp := answer(200, "")
					resp.Body, resp.ContentLength = pr, -1
					return resp, nil
				})}
				req := newRequest(t, "POST", strings.NewReader("x")).WithContext(ctx)
				req.URL.RawQuery = "uploadId=5"
				start := time.Now()
				resp, err := tr.RoundTrip(req)
				took := time.Since(start)
				if want == time.Hour {
					if !errors.Is(err, context.DeadlineExceeded) || took != want {
						t.Errorf("%v, %v after %v, want %v", resp, err, took, want)
					}
					return
				}
				if err != nil || resp.StatusCode != 200 || took != want {
					t.Fatalf("%v, %v after %v, want %v", resp, err, took, want)
				}
				cancel()
				if got, err := io.ReadAll(resp.Body); err != context.DeadlineExceeded && err != context.Canceled || string(got) != body {
					t.Errorf("read %q, %v", got, err)
				}
				resp.Body.Close()
			})
		})
	}
}

type countingBase struct{ Calls atomic.Int64 }

func (c *countingBase) RoundTrip(*http.Request) (*http.Response, error) {
	c.Calls.Add(1)
	return answer(200, ""), nil
}

// The race detector sees a Validate that reads what Base changes.
func TestValidateWhileBaseIsInUse(t *testing.T) {
	base := &countingBase{}
	one, other := &awsretry.Transport{Base: base}, &awsretry.Transport{Base: base}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			if _, err := one.RoundTrip(newRequest(t, "GET", nil)); err != nil {
				t.Error(err)
			}
		}
	}()
	for range 100 {
		if err := other.Validate(); err != nil {
			t.Error(err)
		}
	}
	<-done
}

// Where the tokens and the pause cannot both be there before the deadline, the answer goes back at once.
func TestQuotaWaitKeepsTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &awsretry.Transport{
			Base: sequence(503), MaxAttempts: 10,
			Quota:   awsretry.QuotaConfig{Capacity: 5, RefillPerSecond: 0.5, Wait: true},
			Backoff: awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return 4 * time.Second }),
		}
		var stops []awsretry.Stop
		tr.Observe = func(a awsretry.Attempt) { stops = append(stops, a.Stop) }
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		start := time.Now()
		resp, err := tr.RoundTrip(newRequest(t, "GET", nil).WithContext(ctx))
		if err != nil || resp.StatusCode != 503 {
			t.Fatal(resp, err)
		}
		// After 4 s there are 2 tokens; the other 3 take 6 s, and 4 s more would be too many.
		if took := time.Since(start); took != 4*time.Second || len(stops) != 2 || stops[1] != awsretry.StopDeadline {
			t.Errorf("stopped by %q after %v", stops, took)
		}
		if got := tokens(t, tr); got != 2 {
			t.Errorf("%d tokens, want 2: none were drawn", got)
		}
	})
}

// Behind others in line the tokens take longer; a wait for them that cannot end in time is not begun, and takes no place.
func TestQuotaWaitInLineKeepsTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &awsretry.Transport{
			Base: sequence(503), MaxAttempts: 2,
			Quota:   awsretry.QuotaConfig{Capacity: 5, InitialCost: 0, RefillPerSecond: 0.5, Wait: true},
			Backoff: awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return time.Second }),
		}
		results := make(chan awsretry.Stop, 3)
		start := time.Now()
		for range 3 { // the first finds 5 tokens, the second waits 10 s for 5 more, the third would have to wait 20 s
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 20500*time.Millisecond)
				defer cancel()
				resp, err := tr.RoundTrip(newRequest(t, "GET", nil).WithContext(ctx))
				if err != nil {
					t.Error(err)
				}
				outcome, _ := awsretry.Outcome(resp)
				if took := time.Since(start); outcome.Stop == awsretry.StopDeadline && took != 0 {
					t.Errorf("the deadline was kept only after %v", took)
				}
				results <- outcome.Stop
			}()
		}
		got := map[awsretry.Stop]int{}
		for range 3 {
			got[<-results]++
		}
		if got[awsretry.StopMaxAttempts] != 2 || got[awsretry.StopDeadline] != 1 {
			t.Errorf("stopped by %v", got)
		}
		if took, left := time.Since(start), tokens(t, tr); took != 11*time.Second || left != 0 {
			t.Errorf("%d tokens after %v, want 0 after 11s", left, took)
		}
	})
}

// hastyContext has a deadline that comes nearer once it was looked at.
type hastyContext struct {
	context.Context
	looks *int
}

func (c hastyContext) Deadline() (time.Time, bool) {
	if *c.looks++; *c.looks == 1 {
		return time.Now().Add(time.Hour), true
	}
	return time.Now().Add(time.Second), true
}

// Others can join the line between the decision to retry and the wait: the answer is still there then, and goes back.
func TestQuotaWaitThatHasBecomeTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		tr := &awsretry.Transport{
			Quota:   awsretry.QuotaConfig{Capacity: 5, RefillPerSecond: 1, Wait: true},
			Backoff: awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { looks = 0; return 0 }),
			Base:    sequence(503),
		}
		start := time.Now()
		resp, err := tr.RoundTrip(newRequest(t, "GET", nil).WithContext(hastyContext{t.Context(), &looks}))
		if err != nil {
			t.Fatal(err)
		}
		// The first retry draws what is there, the second would have to wait for 5 s.
		if outcome, _ := awsretry.Outcome(resp); outcome.Stop != awsretry.StopDeadline || outcome.Number != 2 || time.Since(start) != 0 {
			t.Errorf("stopped by %q after %d attempts and %v", outcome.Stop, outcome.Number, time.Since(start))
		}
	})
}

// badAt is a body in place that cannot be read.
type badAt struct{ *bytes.Reader }

var errDisk = errors.New("disk on fire")

func (badAt) ReadAt([]byte, int64) (int, error) { return 0, errDisk }
func (badAt) Close() error                      { return nil }

func TestReadErrorInPlaceIsTerminal(t *testing.T) {
	tr := &awsretry.Transport{Base: roundTripper(func(req *http.Request) (*http.Response, error) {
		_, err := io.ReadAll(req.Body)
		return nil, err
	})}
	req := newRequest(t, "PUT", nil)
	req.Body, req.ContentLength = badAt{bytes.NewReader(make([]byte, 10))}, 10
	_, err := tr.RoundTrip(req)
	var e *awsretry.Error
	if !errors.Is(err, errDisk) || !errors.As(err, &e) || e.Attempts != 1 || e.Stop != awsretry.StopPermanent {
		t.Errorf("got %v", err)
	}
}

// The deprecated Request.Cancel ends waits for tokens too, and nothing is sent then.
func TestRequestCancelEndsTokenWaits(t *testing.T) {
	for name, tr := range map[string]*awsretry.Transport{
		"send token": {Mode: awsretry.Adaptive, MaxAttempts: 1, RateLimit: awsretry.RateLimitConfig{MinFillRate: 0.01}},
		"quota":      {Quota: awsretry.QuotaConfig{Capacity: 10, InitialCost: 10, RefillPerSecond: 0.01, Wait: true}, MaxAttempts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				base := sequence(429)
				tr.Base = roundTripper(func(r *http.Request) (*http.Response, error) { sent++; return base(r) })
				if _, err := get(t, tr); err != nil {
					t.Fatal(err)
				}
				cancel := make(chan struct{})
				time.AfterFunc(time.Second, func() { close(cancel) })
				req := newRequest(t, "GET", nil)
				req.Cancel = cancel //lint:ignore SA1019 it is what is tested
				start := time.Now()
				_, err := tr.RoundTrip(req)
				if took := time.Since(start); took != time.Second || !errors.Is(err, context.Canceled) || sent != 1 {
					t.Errorf("%v after %v; sent %d times", err, took, sent)
				}
			})
		})
	}
}

type countingContext struct {
	context.Context
	lookups *int
}

func (c countingContext) Value(key any) any {
	*c.lookups++
	return c.Context.Value(key)
}

func TestOneContextLookUp(t *testing.T) {
	for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Adaptive} {
		for name, ctx := range map[string]context.Context{"bare": t.Context(), "with a partition": awsretry.WithPartition(t.Context(), "p")} {
			lookups := 0
			tr := &awsretry.Transport{Mode: mode, Base: sequence(200)}
			if _, err := tr.RoundTrip(newRequest(t, "GET", nil).WithContext(ctx)); err != nil { // which starts the Transport
				t.Fatal(err)
			}
			if _, err := tr.RoundTrip(newRequest(t, "GET", nil).WithContext(countingContext{ctx, &lookups})); err != nil || lookups != 1 {
				t.Errorf("%s, %s: %d look-ups, %v", mode, name, lookups, err)
			}
		}
	}
}

func TestHostInCapitals(t *testing.T) {
	tr := &awsretry.Transport{Base: answering(200)}
	req := newRequest(t, "GET", nil)
	req.URL.Host = "SERVICE.example"
	if got := testing.AllocsPerRun(100, func() { tr.RoundTrip(req) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
	named := newRequest(t, "GET", nil).WithContext(awsretry.WithPartition(t.Context(), "OTHER.example"))
	tr.RoundTrip(named)
	req.URL.Host = "OTHER.example"
	tr.RoundTrip(req)
	for _, name := range []string{"service.example", "OTHER.example", "other.example"} {
		if _, ok := tr.State(name); !ok {
			t.Errorf("there is no partition %q", name)
		}
	}
}

func TestLowMaxNeedsNoInitial(t *testing.T) {
	for _, b := range []awsretry.Backoff{awsretry.Exponential{Max: 500 * time.Millisecond}, awsretry.Decorrelated{Max: 500 * time.Millisecond}} {
		if err := (&awsretry.Transport{Backoff: b}).Validate(); err != nil {
			t.Error(err)
		}
	}
	if got := (awsretry.Exponential{Max: 500 * time.Millisecond, Jitter: awsretry.NoJitter}).Delay(0, awsretry.Transient, 0); got != 500*time.Millisecond {
		t.Errorf("the first pause is %v", got)
	}
}

// The deadline's error does not hide what went wrong before it.
func TestLateDeadlineTellsOfTheFailureBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		tr := &awsretry.Transport{Backoff: awsretry.BackoffFunc(noPause), Base: roundTripper(func(r *http.Request) (*http.Response, error) {
			if n++; n == 1 {
				return answer(503, ""), nil
			}
			<-r.Context().Done()
			return nil, context.Cause(r.Context())
		})}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := tr.RoundTrip(newRequest(t, "GET", nil).WithContext(ctx))
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "503") {
			t.Errorf("got %v", err)
		}
	})
}

func TestSendTokenComesBackWhereNothingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken error
		tr := &awsretry.Transport{
			Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{FailFast: true}, MaxAttempts: 1, Base: sequence(429, 200),
			Prepare: func(*http.Request, int) error { return broken },
		}
		if _, err := get(t, tr); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		broken = errors.New("no credentials")
		if _, err := get(t, tr); !errors.Is(err, broken) {
			t.Fatal(err)
		}
		broken = nil
		if _, err := get(t, tr); err != nil {
			t.Error(err)
		}
	})
}

func TestPrepareOfARequestWithoutHeader(t *testing.T) {
	tr := &awsretry.Transport{Base: answering(200), SDKHeaders: true, Prepare: func(r *http.Request, _ int) error {
		r.Header.Set("Date", "today")
		return nil
	}}
	req := newRequest(t, "GET", nil)
	req.Header = nil
	if _, err := tr.RoundTrip(req); err != nil || req.Header != nil {
		t.Error(err, req.Header)
	}
}

func TestZeroError(t *testing.T) {
	e := &awsretry.Error{}
	if e.Error() == "" || e.Timeout() || e.Temporary() || e.Unwrap() != nil {
		t.Errorf("%v", e)
	}
	canceled := &awsretry.Error{Stop: awsretry.StopCanceled, Err: errors.Join(context.Canceled, &attemptTimeout{})}
	if canceled.Timeout() {
		t.Error("the caller's cancel is no time-out, whatever came before it")
	}
}

type attemptTimeout struct{}

func (*attemptTimeout) Error() string { return "time-out" }
func (*attemptTimeout) Timeout() bool { return true }

func TestBodyThatGivesNothingDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which a goroutine that spins would stop the clock
		empty := 150
		tr := &awsretry.Transport{MaxAttempts: 1, Base: roundTripper(func(*http.Request) (*http.Response, error) {
			resp := answer(400, "")
			resp.Body, resp.ContentLength = io.NopCloser(readFunc(func(p []byte) (int, error) {
				if empty--; empty > 0 {
					return 0, nil
				}
				return copy(p, "late"), io.EOF
			})), -1
			return resp, nil
		})}
		resp, err := get(t, tr)
		if err != nil || empty <= 0 {
			t.Fatal(err, empty)
		}
		if body, err := io.ReadAll(resp.Body); string(body) != "late" || err != nil {
			t.Errorf("read %q, %v", body, err)
		}
	})
}
