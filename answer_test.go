package awsretry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

const peekLimit = 64 << 10 // of an error body

// once is a Transport that sends once, so that a failure's answer is what comes back.
func once(base baseFunc) *awsretry.Transport { return &awsretry.Transport{Base: base, MaxAttempts: 1} }

// TestErrorBodiesComeBackWhole is about what is read ahead for the error code, and given back.
func TestErrorBodiesComeBackWhole(t *testing.T) {
	coded := func(n int) string { // n bytes of JSON that begin with a throttling code
		head := `{"__type":"ThrottlingException","pad":"`
		return head + strings.Repeat("x", n-len(head)-2) + `"}`
	}
	for _, c := range []struct {
		name string
		body string
		code string
	}{
		{"empty", "", ""},
		{"one byte", "{", ""},
		{"small", coded(100), "ThrottlingException"},
		{"just below the limit", coded(peekLimit - 1), "ThrottlingException"},
		{"the limit", coded(peekLimit), "ThrottlingException"},
		{"code behind the limit", `{"pad":"` + strings.Repeat("x", peekLimit) + `","__type":"ThrottlingException"}`, ""},
		{"long", letters(5*peekLimit + 1), ""},
	} {
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"whole":         func(r io.Reader) io.Reader { return r },
			"half":          iotest.HalfReader,
			"data with EOF": iotest.DataErrReader,
			"in memory":     nil,
		} {
			for _, length := range []int64{-1, int64(len(c.body))} {
				var body io.ReadCloser = io.NopCloser(strings.NewReader(c.body))
				var source *tracked
				if wrap != nil {
					source = track(wrap(strings.NewReader(c.body)))
					body = source
				}
				var seen awsretry.Attempt
				tr := once(func(req *http.Request) (*http.Response, error) {
					resp := respond(req, 400, body, "Content-Type", "application/x-amz-json-1.1")
					resp.ContentLength = length
					return resp, nil
				})
				tr.Observe = func(a awsretry.Attempt) { seen = a }
				resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
				if err != nil {
					t.Fatal(err)
				}
				want := awsretry.Permanent
				if c.code != "" {
					want = awsretry.Throttled
				}
				if seen.Code != c.code || seen.Class != want {
					t.Errorf("%s, %s: code %q, %v", c.name, name, seen.Code, seen.Class)
				}
				if got := whole(t, resp); got != c.body {
					t.Errorf("%s, %s: %d of %d bytes come back", c.name, name, len(got), len(c.body))
				}
				if source != nil && (source.closes.Load() != 1 || source.overlaps.Load() > 0) {
					t.Errorf("%s, %s: closed %d times, %d overlaps", c.name, name, source.closes.Load(), source.overlaps.Load())
				}
				if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err == nil || err == io.EOF {
					t.Errorf("%s, %s: Read behind Close: %d, %v", c.name, name, n, err)
				}
			}
		}
	}
}

// TestLateCode: a code at the very end of the part that is read ahead counts, one that is cut off there does not.
func TestLateCode(t *testing.T) {
	for _, over := range []int{0, len(`"}`) + 1} {
		tail := `","__type":"SlowDown"}`
		body := `{"pad":"` + strings.Repeat("x", peekLimit-len(tail)-len(`{"pad":"`)+over) + tail
		var seen awsretry.Attempt
		tr := once(func(req *http.Request) (*http.Response, error) {
			return respond(req, 400, track(strings.NewReader(body))), nil
		})
		tr.Observe = func(a awsretry.Attempt) { seen = a }
		resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
		if err != nil || whole(t, resp) != body || (seen.Code == "SlowDown") != (over == 0) {
			t.Errorf("%d bytes too long: code %q, %v", over, seen.Code, err)
		}
	}
}

func TestEndlessErrorBody(t *testing.T) {
	given := 0
	source := track(readFunc(func(p []byte) (int, error) {
		for i := range p {
			p[i] = byte((given + i) % 251)
		}
		given += len(p)
		return len(p), nil
	}))
	tr := once(func(req *http.Request) (*http.Response, error) { return respond(req, 500, source), nil })
	resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
	if err != nil || stopOf(resp, nil) != awsretry.StopMaxAttempts {
		t.Fatal(resp, err)
	}
	if given > peekLimit {
		t.Errorf("%d bytes were read ahead", given)
	}
	got := make([]byte, 10*peekLimit)
	if _, err := io.ReadFull(resp.Body, got); err != nil {
		t.Fatal(err)
	}
	for i, b := range got {
		if b != byte(i%251) {
			t.Fatalf("byte %d is %d", i, b)
		}
	}
	if resp.Body.Close(); source.closes.Load() != 1 {
		t.Error("not closed")
	}
}

// TestSlowErrorBody: what is not there after a second does not count, and is not
// lost. The Read that is under way then has ended when the caller gets the body.
func TestSlowErrorBody(t *testing.T) {
	for _, c := range []struct {
		status int
		first  string
		stop   awsretry.Stop
	}{
		{500, `{"__type":"ThrottlingExc`, awsretry.StopMaxAttempts},
		{400, `{"__type":"ThrottlingExc`, awsretry.StopPermanent},
		{503, "", awsretry.StopMaxAttempts},
	} {
		synctest.Test(t, func(t *testing.T) {
			pr, pw := io.Pipe()
			go func() {
				for _, part := range []string{c.first, "eption", "\"}"} {
					if part != "" {
						io.WriteString(pw, part)
					}
					time.Sleep(10 * time.Second)
				}
				pw.Close()
			}()
			source := track(pr)
			start := time.Now()
			tr := once(func(req *http.Request) (*http.Response, error) { return respond(req, c.status, source), nil })
			resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
			if d := time.Since(start); err != nil || d != 10*time.Second || stopOf(resp, nil) != c.stop {
				t.Errorf("%v after %v; stopped by %q", err, d, stopOf(resp, nil))
			}
			if record, _ := awsretry.Outcome(resp); record.Code != "" {
				t.Errorf("code %q", record.Code)
			}
			reads := source.reads.Load()
			if time.Sleep(time.Minute); source.reads.Load() != reads || source.reading.Load() {
				t.Errorf("%d reads after RoundTrip", source.reads.Load()-reads)
			}
			if got := whole(t, resp); got != c.first+`eption"}` || source.overlaps.Load() > 0 {
				t.Errorf("read %q with %d overlaps", got, source.overlaps.Load())
			}
		})
	}
}

// hangingBody is a body of one byte whose second Read ends with ctx.
func hangingBody(ctx context.Context) *tracked {
	first := true
	return track(readFunc(func(p []byte) (int, error) {
		if first {
			first = false
			return copy(p, "x"), nil
		}
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}))
}

// TestHangingErrorBody: where the status is retryable, a body that hangs is given
// up after a second. It is closed, but not while it is being read.
func TestHangingErrorBody(t *testing.T) {
	for _, status := range []int{503, 429} {
		for _, rev := range []awsretry.Revision{awsretry.Classic, awsretry.Revision2026} {
			for _, timeout := range []time.Duration{0, time.Minute} {
				synctest.Test(t, func(t *testing.T) { // which finds goroutines that are left
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					var given []*tracked
					tr := &awsretry.Transport{Revision: rev, MaxAttempts: 2, AttemptTimeout: timeout, Backoff: pauseOf(0)}
					tr.Base = baseFunc(func(req *http.Request) (*http.Response, error) {
						if len(given) == 1 {
							return respond(req, 200, http.NoBody), nil
						}
						given = append(given, hangingBody(req.Context()))
						return respond(req, status, given[0]), nil
					})
					start := time.Now()
					resp, err := tr.RoundTrip(request(t, ctx, "GET", nil))
					if d := time.Since(start); err != nil || resp.StatusCode != 200 || d > 1100*time.Millisecond {
						t.Fatalf("%v, %v after %v", resp, err, d)
					}
					synctest.Wait()
					if closed := given[0].closes.Load() > 0; closed != (timeout > 0) { // its context is ours to end
						t.Errorf("closed: %v", closed)
					}
					cancel()
					synctest.Wait()
					if given[0].closes.Load() != 1 || given[0].closedReading.Load() > 0 {
						t.Errorf("closed %d times, %d times while it was read", given[0].closes.Load(), given[0].closedReading.Load())
					}
				})
			}
		}
	}
}

// TestHangingPipe: a body that may be closed at any time is, while it is read.
func TestHangingPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes []error
		tr := &awsretry.Transport{MaxAttempts: 2, Backoff: pauseOf(0)}
		sends := 0
		tr.Base = baseFunc(func(req *http.Request) (*http.Response, error) {
			if sends++; sends == 2 {
				return respond(req, 200, http.NoBody), nil
			}
			pr, pw := io.Pipe()
			go func() {
				time.Sleep(3 * time.Second)
				_, err := pw.Write([]byte("late"))
				writes = append(writes, err)
			}()
			return respond(req, 503, pr), nil
		})
		resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(writes) != 1 || writes[0] != io.ErrClosedPipe {
			t.Errorf("the pipe's writer got %v", writes)
		}
	})
}

// TestHangingPermanentBody: a body that is to be returned is waited for as long
// as the context lasts.
func TestHangingPermanentBody(t *testing.T) {
	gone := errors.New("the caller is gone")
	for _, heeds := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			forever, end := context.WithCancel(t.Context())
			defer end()
			time.AfterFunc(time.Hour, func() { cancel(gone) })
			bodyCtx := ctx
			if !heeds {
				bodyCtx = forever
			}
			body := hangingBody(bodyCtx)
			tr := &awsretry.Transport{Base: baseFunc(func(req *http.Request) (*http.Response, error) { return respond(req, 400, body), nil })}
			start := time.Now()
			resp, err := tr.RoundTrip(request(t, ctx, "GET", nil))
			if d := time.Since(start); d != time.Hour {
				t.Errorf("came back after %v", d)
			}
			if err == nil { // the body ended at the same moment
				resp.Body.Close()
			} else if !errors.Is(err, gone) || stopOf(nil, err) != awsretry.StopCanceled {
				t.Error(err)
			}
			end()
			synctest.Wait()
			if body.closes.Load() != 1 || body.closedReading.Load() > 0 {
				t.Errorf("closed %d times, %d times while it was read", body.closes.Load(), body.closedReading.Load())
			}
		})
	}
}

func TestBrokenErrorBody(t *testing.T) {
	broken := errors.New("cut off")
	for _, data := range []string{"", "{", letters(2 * peekLimit)} {
		source := track(io.MultiReader(strings.NewReader(data), iotest.ErrReader(broken)))
		tr := once(func(req *http.Request) (*http.Response, error) { return respond(req, 429, source), nil })
		resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
		if err != nil || stopOf(resp, nil) != awsretry.StopMaxAttempts {
			t.Fatal(resp, err)
		}
		for range 2 { // the error stays
			got, err := io.ReadAll(resp.Body)
			if string(got) != data || err != broken {
				t.Errorf("%d of %d bytes, %v", len(got), len(data), err)
			}
			data = ""
		}
		resp.Body.Close()
	}
}

func TestPanickingErrorBody(t *testing.T) {
	source := track(io.MultiReader(strings.NewReader("abc"), readFunc(func([]byte) (int, error) { panic("body") })))
	tr := once(func(req *http.Request) (*http.Response, error) { return respond(req, 500, source), nil })
	resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(resp.Body); string(got) != "abc" || err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("%q, %v", got, err)
	}
	if resp.Body.Close(); source.closes.Load() != 1 {
		t.Error("not closed")
	}
}

// A writableBody is a body like a 101's.
type writableBody struct {
	*tracked
	written    bytes.Buffer
	halfClosed bool
}

func (b *writableBody) Write(p []byte) (int, error) { return b.written.Write(p) }
func (b *writableBody) CloseWrite() error           { b.halfClosed = true; return nil }

// TestBodiesThatAreNotReadAhead are the caller's as they came.
func TestBodiesThatAreNotReadAhead(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		header []string
	}{
		{"success", 200, nil},
		{"redirect", 302, nil},
		{"event stream", 500, []string{"Content-Type", "text/event-stream; charset=utf-8"}},
		{"AWS event stream", 500, []string{"Content-Type", "application/vnd.amazon.eventstream"}},
		{"compressed", 500, []string{"Content-Encoding", "gzip"}},
		{"code in the header", 400, []string{"X-Amzn-Errortype", "ThrottlingException"}},
	} {
		source := track(strings.NewReader("data"))
		tr := once(func(req *http.Request) (*http.Response, error) {
			return respond(req, c.status, source, c.header...), nil
		})
		resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
		if err != nil || source.reads.Load() != 0 {
			t.Errorf("%s: %v, %d reads", c.name, err, source.reads.Load())
			continue
		}
		if whole(t, resp) != "data" {
			t.Errorf("%s: not whole", c.name)
		}
	}
}

// TestUpgrade: the answer to an upgrade is a connection, with and without a time-out.
func TestUpgrade(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			conn := &writableBody{tracked: track(strings.NewReader("hello"))}
			var ctx context.Context
			tr := once(func(req *http.Request) (*http.Response, error) {
				ctx = req.Context()
				return respond(req, 101, conn), nil
			})
			tr.AttemptTimeout = timeout
			resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
			if err != nil || conn.reads.Load() > 0 {
				t.Fatal(err, conn.reads.Load())
			}
			rw, ok := resp.Body.(io.ReadWriteCloser)
			if !ok {
				t.Fatalf("the body is a %T", resp.Body)
			}
			time.Sleep(time.Hour)
			if _, err := rw.Write([]byte("hi")); err != nil || conn.written.String() != "hi" || ctx.Err() != nil {
				t.Errorf("wrote %q, %v; the attempt's context: %v", conn.written.String(), err, ctx.Err())
			}
			half, ok := resp.Body.(interface{ CloseWrite() error })
			if !ok || half.CloseWrite() != nil || !conn.halfClosed {
				t.Error("CloseWrite does not reach the connection")
			}
			if got := whole(t, resp); got != "hello" || conn.closes.Load() != 1 {
				t.Errorf("read %q, closed %d times", got, conn.closes.Load())
			}
			if timeout > 0 && ctx.Err() == nil {
				t.Error("the attempt's context outlives the body")
			}
		})
	}
}

// TestWritableErrorBody: a body that happens to have a Write method is read for its code, and keeps the method.
func TestWritableErrorBody(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Second} {
		const throttled = `{"__type":"ThrottlingException"}`
		conn := &writableBody{tracked: track(strings.NewReader(throttled))}
		tr := once(func(req *http.Request) (*http.Response, error) { return respond(req, 400, conn), nil })
		tr.AttemptTimeout = timeout
		resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
		if err != nil {
			t.Fatal(err)
		}
		if outcome, _ := awsretry.Outcome(resp); outcome.Class != awsretry.Throttled {
			t.Errorf("class %v", outcome.Class)
		}
		if w, ok := resp.Body.(io.Writer); !ok {
			t.Errorf("the body is a %T", resp.Body)
		} else if _, err := w.Write([]byte("hi")); err != nil || conn.written.String() != "hi" {
			t.Errorf("wrote %q, %v", conn.written.String(), err)
		}
		if half, ok := resp.Body.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil || !conn.halfClosed {
			t.Error("CloseWrite does not reach the connection")
		}
		if got := whole(t, resp); got != throttled || conn.closes.Load() != 1 {
			t.Errorf("read %q, closed %d times", got, conn.closes.Load())
		}
	}
}

// TestSlowCopyAnswer: S3 answers a copy with 200 at once, and says how it went when it is over.
func TestSlowCopyAnswer(t *testing.T) {
	const slowDown = "<Error><Code>SlowDown</Code></Error>"
	for _, c := range []struct {
		name     string
		timeout  time.Duration
		canceled time.Duration
		elapsed  time.Duration
		stop     awsretry.Stop
	}{
		{"waited for", 0, time.Hour, 30 * time.Second, awsretry.StopMaxAttempts},
		{"waited for within the time-out", time.Minute, time.Hour, 30 * time.Second, awsretry.StopMaxAttempts},
		{"until the time-out", 10 * time.Second, time.Hour, 10 * time.Second, ""},
		{"until the caller goes", 0, 5 * time.Second, 5 * time.Second, awsretry.StopCanceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := once(func(req *http.Request) (*http.Response, error) {
					document := patient(req.Context(), 30*time.Second, iotest.DataErrReader(strings.NewReader(slowDown)))
					return respond(req, 200, track(io.MultiReader(strings.NewReader("<?xml version='1.0'?>"), document))), nil
				})
				tr.AttemptTimeout = c.timeout
				ctx, cancel := context.WithTimeout(t.Context(), c.canceled)
				defer cancel()
				req := request(t, ctx, "PUT", nil)
				req.Header.Set("X-Amz-Copy-Source", "bucket/key")
				start := time.Now()
				resp, err := tr.RoundTrip(req)
				if d := time.Since(start); d != c.elapsed {
					t.Errorf("%v after %v", err, d)
				}
				if resp == nil { // the caller has gone, and the body with it
					if c.stop != stopOf(nil, err) || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%v; stopped by %q", err, stopOf(nil, err))
					}
					return
				}
				if stopOf(resp, nil) != c.stop {
					t.Errorf("stopped by %q", stopOf(resp, nil))
				}
				if c.stop != "" && whole(t, resp) != "<?xml version='1.0'?>"+slowDown {
					t.Error("not whole")
				}
				time.Sleep(time.Minute)
				resp.Body.Close()
			})
		})
	}
}

// An unwrapping body has a method like those of this module's own.
type unwrapping struct {
	*tracked
	below io.ReadCloser
}

func (u unwrapping) Unwrap() io.ReadCloser { return u.below }

// TestForeignBodiesAreClosedAfterTheRead: one is not taken for net/http's own
// because it is wrapped in one of its types, or wraps one.
func TestForeignBodiesAreClosedAfterTheRead(t *testing.T) {
	for _, kind := range []string{"http.Client", "Unwrap"} {
		synctest.Test(t, func(t *testing.T) {
			end := make(chan struct{})
			source := track(readFunc(func([]byte) (int, error) { <-end; return 0, io.EOF }))
			pr, _ := io.Pipe()
			sends := 0
			base := baseFunc(func(req *http.Request) (*http.Response, error) {
				switch sends++; {
				case sends > 1:
					return respond(req, 200, http.NoBody), nil
				case kind == "Unwrap":
					return respond(req, 503, unwrapping{source, pr}, "Content-Type", "application/json"), nil
				}
				return respond(req, 503, source, "Content-Type", "application/json"), nil
			})
			tr := &awsretry.Transport{Backoff: pauseOf(0), Base: base}
			if kind == "http.Client" {
				client := &http.Client{Timeout: time.Hour, Transport: base}
				tr.Base = baseFunc(func(req *http.Request) (*http.Response, error) { return client.Do(req) })
			}
			resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
			if err != nil || resp.StatusCode != 200 {
				t.Fatal(resp, err)
			}
			resp.Body.Close()
			close(end)
			synctest.Wait()
			if source.closes.Load() != 1 || source.closedReading.Load() > 0 {
				t.Errorf("%s: closed %d times, %d times while it was read", kind, source.closes.Load(), source.closedReading.Load())
			}
		})
	}
}
