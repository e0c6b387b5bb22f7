package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// receiveLater reads and closes the body of an attempt on another goroutine, as
// net/http does.
func receiveLater(req *http.Request) {
	go httpfake.Receive(req)
	time.Sleep(time.Millisecond)
}

// If Base still reads the body when its response is there, the retry waits for
// the Read that is under way, and for nothing else.
func TestRetryWaitsForARead(t *testing.T) {
	const never = -1
	for _, canceled := range []bool{false, true} {
		for _, closes := range []time.Duration{0, 4 * time.Second, never} { // how late Base closes its copy
			t.Run(fmt.Sprintf("canceled %v, closed after %v", canceled, closes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					data := httpfake.Text(40)
					rest := strings.NewReader(data)
					source := httpfake.NewBody(httpfake.ReadFunc(func(p []byte) (int, error) {
						time.Sleep(time.Second)
						return rest.Read(p[:min(len(p), 7)])
					}))
					start := time.Now()
					var got string
					var retried time.Duration
					tr := retrying(func(req *http.Request) (*http.Response, error) {
						if got == "" {
							got = "nothing yet"
							io.ReadFull(req.Body, make([]byte, 3))
							go func() {
								io.Copy(io.Discard, req.Body) // ends with the Read that is under way
								if n, err := req.Body.Read(make([]byte, 1)); n > 0 || err == nil || err == io.EOF {
									t.Error("the first attempt could read on")
								}
								if closes != never {
									time.Sleep(closes)
									req.Body.Close() // while the second attempt reads
								}
							}()
							time.Sleep(time.Second / 2)
							return httpfake.Response(req, 503, http.NoBody), nil
						}
						retried = time.Since(start)
						var err error
						got, err = httpfake.Receive(req)
						return httpfake.Response(req, 200, http.NoBody), err
					})
					tr.MaxBodyBuffer = 3 // it is full when the response comes; the Read under way is kept all the same
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					if canceled {
						time.AfterFunc(1700*time.Millisecond, func() { cancel(errGone) })
					}
					resp, err := tr.RoundTrip(httpfake.Request(t, ctx, "POST", source))
					took := time.Since(start)
					switch {
					case !canceled && (err != nil || resp.StatusCode != 200 || got != data || retried != 2*time.Second):
						t.Errorf("%v, %v; the retry came after %v with %q", resp, err, retried, got)
					case canceled && (!errors.Is(err, errGone) || took != 1700*time.Millisecond):
						t.Errorf("%v after %v", err, took)
					case canceled && (!strings.Contains(err.Error(), "503") || contract.TokensOf(t, tr) != 500):
						t.Errorf("%v; %d tokens", err, contract.TokensOf(t, tr))
					}
					time.Sleep(time.Minute)
					if source.Overlaps() > 0 || source.ReadsAfterClose() > 0 || source.Closes() != 1 {
						t.Errorf("%d overlapping reads, %d after Close, %d times closed",
							source.Overlaps(), source.ReadsAfterClose(), source.Closes())
					}
				})
			})
		}
	}
}

// If Base closes the body during a Read, the retry waits for that Read and
// sends what it brings.
func TestCloseDuringRead(t *testing.T) {
	for _, tt := range []struct {
		brings string
		with   error
		sends  int
	}{
		{"def", nil, 2},
		{"def", io.EOF, 2},
		{"", io.EOF, 2},
		{"", nil, 2},
		{"def", errReset, 1},
	} {
		t.Run(fmt.Sprintf("%q, %v", tt.brings, tt.with), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reads := 0
				source := httpfake.NewBody(httpfake.ReadFunc(func(p []byte) (int, error) {
					switch reads++; reads {
					case 1:
						return copy(p, "abc"), nil
					case 2:
						time.Sleep(time.Second / 2)
						return copy(p, tt.brings), tt.with
					}
					return 0, io.EOF
				}))
				sends := 0
				tr := retrying(func(req *http.Request) (*http.Response, error) {
					if sends++; sends == 1 {
						req.Body.Read(make([]byte, 3))
						go req.Body.Read(make([]byte, 3))
						synctest.Wait()
						req.Body.Close()
						return httpfake.Response(req, 503, http.NoBody), nil
					}
					if got, err := httpfake.Receive(req); got != "abc"+tt.brings || err != nil {
						t.Errorf("the retry sends %q, %v", got, err)
					}
					return httpfake.Response(req, 200, http.NoBody), nil
				})
				start := time.Now()
				resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "PUT", source))
				if took := time.Since(start); err != nil || sends != tt.sends || took != time.Second/2 {
					t.Errorf("%v, %v after %v and %d attempts", resp, err, took, sends)
				}
				if source.Overlaps() > 0 || source.Closes() != 1 {
					t.Errorf("%d overlapping reads, %d times closed", source.Overlaps(), source.Closes())
				}
			})
		})
	}
}

// A caller may write the body only after RoundTrip has returned, so RoundTrip
// must not wait for it.
func TestBodyThatWaitsForTheResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		source, response := httpfake.NewBody(pr), httpfake.NewBody(strings.NewReader("busy"))
		var sent string
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			go func() { sent, _ = httpfake.Receive(req) }()
			synctest.Wait() // until it reads
			return httpfake.Response(req, 503, response), nil
		})
		start := time.Now()
		resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "POST", source))
		if took := time.Since(start); err != nil || took > 2*time.Second ||
			contract.StopOf(resp, nil) != awsretry.StopBody {
			t.Fatalf("%v, %v after %v", resp, err, took)
		}
		if n := contract.TokensOf(t, tr); n != 500 {
			t.Errorf("%d tokens", n)
		}
		io.WriteString(pw, "at last")
		pw.Close()
		synctest.Wait()
		if sent != "at last" || httpfake.ReadAll(t, resp) != "busy" || source.Closes() != 1 {
			t.Errorf("sent %q; closed %d times", sent, source.Closes())
		}
	})
}

// The error of a Read that Base cut short by closing the body is not a failure
// of the caller's reader.
func TestReadThatCloseCuts(t *testing.T) {
	for attempts, want := range map[int]awsretry.Stop{1: awsretry.StopMaxAttempts, 3: awsretry.StopBody} {
		t.Run(fmt.Sprintf("MaxAttempts %d", attempts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pr, pw := io.Pipe()
				defer pw.Close()
				go io.WriteString(pw, "a message")
				tr := retrying(func(req *http.Request) (*http.Response, error) {
					done := make(chan bool)
					go func() { io.Copy(io.Discard, req.Body); close(done) }()
					time.Sleep(time.Second)
					req.Body.Close() // as net/http does when the connection breaks
					<-done
					return nil, errReset
				})
				tr.MaxBodyBuffer, tr.MaxAttempts = 2, attempts
				resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "PUT", pr))
				if !errors.Is(err, errReset) || contract.StopOf(resp, err) != want {
					t.Errorf("%v, %v; want it stopped by %q", resp, err, want)
				}
			})
		})
	}
}

// everyNow returns a body that brings one part each d, and then its end.
func everyNow(d time.Duration, parts ...string) io.Reader {
	return struct{ io.Reader }{httpfake.ReadFunc(func(p []byte) (int, error) {
		time.Sleep(d)
		if len(parts) == 0 {
			return 0, io.EOF
		}
		n := copy(p, parts[0])
		parts = parts[1:]
		return n, nil
	})}
}

// A Read that takes longer than a second is waited for if the delay before the
// retry is as long.
func TestSlowProducer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		first  outcome
		delay  time.Duration
		status int // 0: the error of the first attempt
	}{
		{"error, long delay", fails(io.ErrUnexpectedEOF), 5 * time.Second, 200},
		{"error, short delay", fails(io.ErrUnexpectedEOF), 0, 0},
		{"response, long delay", busy, 5 * time.Second, 200},
		{"response, short delay", busy, 0, 503},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sends := 0
				var got string
				tr := retrying(func(req *http.Request) (_ *http.Response, err error) {
					if sends++; sends == 1 {
						go httpfake.Receive(req)
						time.Sleep(100 * time.Millisecond)
						return tt.first(req, http.NoBody)
					}
					got, err = httpfake.Receive(req)
					return httpfake.Response(req, 200, http.NoBody), err
				})
				tr.Backoff = contract.Delay(tt.delay)
				start := time.Now()
				resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "PUT",
					everyNow(3*time.Second, "one", "two", "three")))
				took := time.Since(start)
				time.Sleep(time.Minute) // until Base has read the body, if its response was returned
				if tt.status == 0 {
					if !errors.Is(err, io.ErrUnexpectedEOF) || took > 1100*time.Millisecond {
						t.Errorf("%v, %v after %v", resp, err, took)
					}
					if stop := contract.StopOf(resp, err); stop != awsretry.StopBody {
						t.Errorf("stopped by %q", stop)
					}
					return
				}
				if err != nil || resp.StatusCode != tt.status {
					t.Fatal(resp, err)
				}
				if tt.status != 200 {
					return
				}
				// Four Reads of 3 s; most of the delay passes during the first.
				if got != "onetwothree" || took < 12*time.Second {
					t.Errorf("the retry sends %q after %v", got, took)
				}
			})
		})
	}
}

// The wait for a Read ends with the call, and before the deadline.
func TestWaitForAReadEnds(t *testing.T) {
	for _, tt := range []struct {
		name    string
		timeout time.Duration // AttemptTimeout
		outcome outcome
		change  func(*http.Request) *http.Request
		most    time.Duration
		stop    awsretry.Stop
	}{
		{
			name: "Request.Cancel after a transport error", outcome: fails(io.ErrUnexpectedEOF),
			change: func(req *http.Request) *http.Request {
				req.Cancel = closeAfter(time.Second)
				return req
			},
			most: time.Second, stop: awsretry.StopCanceled,
		},
		{
			name: "context after a response", outcome: busy,
			change: func(req *http.Request) *http.Request {
				ctx, _ := canceledAfter(time.Second / 2)(req.Context())
				return req.WithContext(ctx)
			},
			most: time.Second / 2, stop: awsretry.StopCanceled,
		},
		{
			name: "deadline after a response", outcome: busy,
			change: func(req *http.Request) *http.Request {
				ctx, cancel := context.WithTimeout(req.Context(), time.Second/2)
				time.AfterFunc(time.Hour, cancel)
				return req.WithContext(ctx)
			},
			most: 300 * time.Millisecond, stop: awsretry.StopBody,
		},
		{
			name: "AttemptTimeout", timeout: 5 * time.Second, outcome: hangs,
			change: func(req *http.Request) *http.Request { return req },
			most:   7 * time.Second, stop: awsretry.StopBody,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := retrying(func(req *http.Request) (*http.Response, error) {
					receiveLater(req)
					return tt.outcome(req, http.NoBody)
				})
				tr.AttemptTimeout = tt.timeout
				req := tt.change(httpfake.Request(t, t.Context(), "PUT", everyNow(10*time.Hour)))
				start := time.Now()
				resp, err := tr.RoundTrip(req)
				if took := time.Since(start); took > tt.most {
					t.Errorf("returned after %v, want %v at most", took, tt.most)
				}
				if stop := contract.StopOf(resp, err); stop != tt.stop {
					t.Errorf("stopped by %q (%v), want %q", stop, err, tt.stop)
				}
				time.Sleep(20 * time.Hour)
			})
		})
	}
}

// While a response is kept, for a Read of the request body or for the delay,
// its AttemptTimeout does not run.
func TestTimeoutStandsStillDuringARead(t *testing.T) {
	keepsTwice := &transport{
		Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{FailFast: true}, AttemptTimeout: 5 * time.Second,
		Backoff: contract.Delay(10 * time.Second), MaxBodyBuffer: 10,
	}
	for _, tt := range []struct {
		name   string
		tr     *transport
		header []string
		source io.Reader // which hangs longer than the time-out
	}{
		{"Read", &transport{AttemptTimeout: time.Second, Backoff: contract.Delay(0)}, nil, everyNow(time.Hour)},
		{
			"delay, then Read", keepsTwice, []string{"Content-Type", "image/png"},
			everyNow(time.Second, httpfake.Text(20), "b", "c", "d", "e"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				data := httpfake.Text(3 << 16)
				tt.tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
					receiveLater(req)
					body := httpfake.NewBody(until(req.Context(), strings.NewReader(data)))
					return httpfake.Response(req, 503, body, tt.header...), nil
				})
				resp, err := tt.tr.RoundTrip(httpfake.Request(t, t.Context(), "PUT", tt.source))
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(tt.tr.AttemptTimeout / 2)
				if got := httpfake.ReadAll(t, resp); got != data || contract.StopOf(resp, nil) != awsretry.StopBody {
					t.Errorf("%d of %d bytes, stopped by %q", len(got), len(data), contract.StopOf(resp, nil))
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// The rest of the response is read during the delay. A delay that passed
// during a Read of the request body is over.
func TestDrainAfterAReadIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		defer close(end)
		sends := 0
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			if sends++; sends > 1 {
				if got, err := httpfake.Receive(req); got != "one" || err != nil {
					t.Errorf("the retry sends %q, %v", got, err)
				}
				return httpfake.Response(req, 200, http.NoBody), nil
			}
			go httpfake.Receive(req)
			time.Sleep(100 * time.Millisecond)
			return httpfake.Response(req, 429, io.NopCloser(hangUntil(end)), "X-Amzn-ErrorType", "SlowDown"), nil
		})
		start := time.Now()
		resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "PUT", everyNow(time.Second, "one")))
		// Two Reads of a second, and a tenth of a second for the drain.
		if took := time.Since(start); err != nil || resp.StatusCode != 200 || took != 2100*time.Millisecond {
			t.Errorf("%v, %v after %v", resp, err, took)
		}
	})
}
