package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// hangingResponse returns a body whose second Read ends with ctx.
func hangingResponse(ctx context.Context) *httpfake.Body {
	first := true
	return httpfake.NewBody(httpfake.ReadFunc(func(p []byte) (int, error) {
		if first {
			first = false
			return copy(p, "x"), nil
		}
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}))
}

// The part of an error body that has not arrived after a second does not count
// for its code. It is not lost, and the Read that was under way has ended when
// the caller gets the body.
func TestSlowErrorBody(t *testing.T) {
	for _, tt := range []struct {
		status int
		first  string
		stop   awsretry.Stop
	}{
		{500, `{"__type":"ThrottlingExc`, awsretry.StopQuota},
		{400, `{"__type":"ThrottlingExc`, awsretry.StopPermanent},
		{503, "", awsretry.StopQuota},
	} {
		t.Run(fmt.Sprintf("%d after %q", tt.status, tt.first), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pr, pw := io.Pipe()
				go func() {
					for _, part := range []string{tt.first, "eption", `"}`} {
						if part != "" {
							io.WriteString(pw, part)
						}
						time.Sleep(10 * time.Second)
					}
					pw.Close()
				}()
				source := httpfake.NewBody(pr)
				start := time.Now()
				resp, err := get(t, unpaid(respondsWith(tt.status, source)))
				if took := time.Since(start); err != nil || took != 10*time.Second ||
					contract.StopOf(resp, nil) != tt.stop {
					t.Errorf("%v after %v; stopped by %q", err, took, contract.StopOf(resp, nil))
				}
				if record, _ := awsretry.Outcome(resp); record.Code != "" {
					t.Errorf("code %q", record.Code)
				}
				reads := source.Reads()
				if time.Sleep(time.Minute); source.Reads() != reads || source.Reading() {
					t.Errorf("%d reads after RoundTrip", source.Reads()-reads)
				}
				if got := httpfake.ReadAll(t, resp); got != tt.first+`eption"}` || source.Overlaps() > 0 {
					t.Errorf("read %q with %d overlapping reads", got, source.Overlaps())
				}
			})
		})
	}
}

// A body that is to be returned is waited for as long as the context lasts.
func TestHangingPermanentBody(t *testing.T) {
	for _, heeds := range []bool{true, false} {
		t.Run(fmt.Sprintf("heeds the context %v", heeds), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Hour, func() { cancel(errGone) })
				bodyCtx, end := context.WithCancel(t.Context())
				defer end()
				if heeds {
					bodyCtx = ctx
				}
				body := hangingResponse(bodyCtx)
				tr := &transport{Base: respondsWith(400, body)}
				start := time.Now()
				resp, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
				if took := time.Since(start); took != time.Hour {
					t.Errorf("returned after %v", took)
				}
				if err == nil { // the body ended at the same moment
					resp.Body.Close()
				} else if !errors.Is(err, errGone) || contract.StopOf(nil, err) != awsretry.StopCanceled {
					t.Error(err)
				}
				end()
				synctest.Wait()
				if body.Closes() != 1 || body.ClosesDuringRead() > 0 {
					t.Errorf("closed %d times, %d times during a read", body.Closes(), body.ClosesDuringRead())
				}
			})
		})
	}
}

// Amazon S3 responds to a copy with a 200 at once, and writes the result later.
func TestSlowCopy(t *testing.T) {
	const declaration, slowDown = "<?xml version='1.0'?>", "<Error><Code>SlowDown</Code></Error>"
	for _, tt := range []struct {
		name     string
		timeout  time.Duration // AttemptTimeout
		canceled time.Duration
		took     time.Duration
		stop     awsretry.Stop
	}{
		{"waited for", 0, time.Hour, 30 * time.Second, awsretry.StopQuota},
		{"waited for within the time-out", time.Minute, time.Hour, 30 * time.Second, awsretry.StopQuota},
		{"until the time-out", 10 * time.Second, time.Hour, 10 * time.Second, ""},
		{"until the caller cancels", 0, 5 * time.Second, 5 * time.Second, awsretry.StopCanceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := unpaid(func(req *http.Request) (*http.Response, error) {
					result := httpfake.SlowReader(req.Context(), 30*time.Second,
						iotest.DataErrReader(strings.NewReader(slowDown)))
					return httpfake.Response(req, 200,
						httpfake.NewBody(io.MultiReader(strings.NewReader(declaration), result))), nil
				})
				tr.AttemptTimeout = tt.timeout
				ctx, cancel := context.WithTimeout(t.Context(), tt.canceled)
				defer cancel()
				req := httpfake.Request(t, ctx, "PUT", nil)
				req.Header.Set("X-Amz-Copy-Source", "bucket/key")
				start := time.Now()
				resp, err := tr.RoundTrip(req)
				if took := time.Since(start); took != tt.took || contract.StopOf(resp, err) != tt.stop {
					t.Errorf("%v after %v; stopped by %q", err, took, contract.StopOf(resp, err))
				}
				if resp == nil { // the body ended with the caller's context
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					return
				}
				if tt.stop != "" && httpfake.ReadAll(t, resp) != declaration+slowDown {
					t.Error("not whole")
				}
				time.Sleep(time.Minute)
				resp.Body.Close()
			})
		})
	}
}

// A 200 is waited for only as long as it may become one of Amazon S3's error
// documents.
func TestStreamedResponse(t *testing.T) {
	const forever = time.Hour
	for body, want := range map[string]time.Duration{
		`{"progress":1}`: 0,
		"":               forever, // no Read may be under way when the response is returned
		"<html>":         0,
		"<?xml version=\"1.0\"?>\n<CopyObjectResult>": 0,
		"<?xml version=\"1.0\"?>\n<!-- wait -->":      forever,
		" \n ":                                        forever,
		"<Err":                                        forever,
	} {
		t.Run(fmt.Sprintf("%q", body), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), forever)
				defer cancel()
				tr := &transport{Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
					httpfake.Receive(req)
					pr, pw := io.Pipe()
					go func() {
						io.WriteString(pw, body)
						<-req.Context().Done()
						pw.CloseWithError(req.Context().Err())
					}()
					return httpfake.Response(req, 200, pr), nil
				})}
				req := httpfake.Request(t, ctx, "POST", strings.NewReader("x"))
				req.URL.RawQuery = "uploadId=5"
				start := time.Now()
				resp, err := tr.RoundTrip(req)
				if took := time.Since(start); took != want {
					t.Errorf("%v, %v after %v, want %v", resp, err, took, want)
				}
				if want == forever {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					return
				}
				if err != nil || resp.StatusCode != 200 {
					t.Fatal(resp, err)
				}
				cancel()
				if got, err := io.ReadAll(resp.Body); err != context.Canceled || string(got) != body {
					t.Errorf("read %q, %v", got, err)
				}
				resp.Body.Close()
			})
		})
	}
}
