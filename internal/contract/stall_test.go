package contract_test

import (
	"context"
	"errors"
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

// wantStall fails unless err says that a body stalled, and does not look like
// the caller's own deadline.
func wantStall(t *testing.T, err error) {
	t.Helper()
	var timeout interface{ Timeout() bool }
	if err == nil || !strings.Contains(err.Error(), "StallTimeout") || errors.Is(err, context.DeadlineExceeded) ||
		!errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("%v is not the StallTimeout", err)
	}
}

// dripping returns a Base whose response body takes quiet for each byte of data,
// and then never comes to its end.
func dripping(status int, data string, quiet time.Duration, contexts *[]context.Context) httpfake.Base {
	return func(req *http.Request) (*http.Response, error) {
		ctx := req.Context()
		*contexts = append(*contexts, ctx)
		time.Sleep(time.Minute) // the headers do not count
		drops := httpfake.SlowReader(ctx, quiet, oneByOne(data))
		return httpfake.Response(req, status, httpfake.NewBody(io.MultiReader(drops, failAfter(ctx)))), nil
	}
}

func oneByOne(data string) io.Reader {
	return httpfake.ReadFunc(func(p []byte) (n int, err error) {
		if data == "" {
			return 0, io.EOF
		}
		n = copy(p[:1], data)
		data = data[n:]
		return n, nil
	})
}

// StallTimeout ends a Read without a byte. Neither a download that takes long
// nor a caller that does is a stall.
func TestStallTimeout(t *testing.T) {
	const limit = 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		var contexts []context.Context
		tr := &transport{StallTimeout: limit, Base: dripping(200, "slowly", 9*time.Second, &contexts)}
		resp, err := get(t, tr)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		buf := make([]byte, 6)
		if _, err := io.ReadFull(resp.Body, buf[:3]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, err := io.ReadFull(resp.Body, buf[3:]); err != nil || string(buf) != "slowly" {
			t.Fatalf("%q, %v", buf, err)
		}
		if err := contexts[0].Err(); err != nil {
			t.Fatal("the attempt's context has ended:", err)
		}
		start := time.Now()
		_, err = resp.Body.Read(buf)
		wantStall(t, err)
		// The drops have an end too, which takes 9 s.
		if took := time.Since(start); took != limit || contexts[0].Err() == nil {
			t.Errorf("after %v; the context's error is %v", took, contexts[0].Err())
		}
		resp.Body.Close()
	})
}

// Over a connection, the stall ends the request.
func TestStallOverAConnection(t *testing.T) {
	for _, protocol := range httpfake.Protocols {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					io.WriteString(w, "begun")
					http.NewResponseController(w).Flush()
					<-r.Context().Done()
				})
				tr := &transport{Base: srv.Base, StallTimeout: time.Minute}
				start := time.Now()
				resp, err := tr.RoundTrip(srv.Request(t, "GET", nil))
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(resp.Body)
				if wantStall(t, err); string(got) != "begun" || time.Since(start) != time.Minute {
					t.Errorf("%q after %v", got, time.Since(start))
				}
				resp.Body.Close()
			})
		})
	}
}

// A stall of an error body that is read for its code ends that Read too.
func TestStalledErrorBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var contexts []context.Context
		tr := unpaid(dripping(503, "ab", time.Second/4, &contexts))
		tr.StallTimeout = 5 * time.Second
		start := time.Now()
		resp, err := get(t, tr)
		took := time.Since(start)
		if err != nil || took > time.Minute+10*time.Second || contract.StopOf(resp, nil) != awsretry.StopQuota {
			t.Fatalf("%v, %v after %v", resp, err, took)
		}
		got, err := io.ReadAll(resp.Body)
		if wantStall(t, err); string(got) != "ab" {
			t.Errorf("read %q", got)
		}
		resp.Body.Close()
	})
}

// A body that is continued is continued after a stall, which costs what a
// time-out does.
func TestResumeAfterAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const data = "the whole object"
		var classes []awsretry.Class
		sends := 0
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			if sends++; sends > 1 {
				if got := req.Header.Get("Range"); got != "bytes=9-" {
					t.Errorf("Range: %s", got)
				}
				resp := httpfake.Response(req, 206, io.NopCloser(strings.NewReader(data[9:])),
					"Etag", `"1"`, "Content-Range", "bytes 9-15/16")
				resp.ContentLength = 7
				return resp, nil
			}
			resp := httpfake.Response(req, 200, httpfake.NewBody(io.MultiReader(
				strings.NewReader(data[:9]), failAfter(req.Context()))), "Etag", `"1"`)
			resp.ContentLength = 16
			return resp, nil
		})
		tr.Resume, tr.StallTimeout = true, 10*time.Second
		tr.Policy = func(a *awsretry.Attempt) awsretry.Class {
			classes = append(classes, awsretry.DefaultPolicy(a))
			return classes[len(classes)-1]
		}
		start := time.Now()
		resp, err := get(t, tr)
		if err != nil {
			t.Fatal(err)
		}
		if got := httpfake.ReadAll(t, resp); got != data || time.Since(start) != tr.StallTimeout {
			t.Errorf("%q after %v", got, time.Since(start))
		}
		if len(classes) != 3 || classes[1] != awsretry.Timeout {
			t.Errorf("classes %v", classes)
		}
	})
}

// A connection that was upgraded may be silent, and its peer may have no more
// to say while the caller has.
func TestUpgradedConnectionDoesNotStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &writableBody{Body: httpfake.NewBody(httpfake.SlowReader(t.Context(), time.Hour, strings.NewReader("hi")))}
		var attempt context.Context
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			attempt = req.Context()
			return httpfake.Response(req, 101, conn), nil
		})
		tr.StallTimeout = time.Second
		resp, err := get(t, tr)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(resp.Body); string(got) != "hi" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		if attempt.Err() != nil {
			t.Error("the end of what the peer sends ended the connection")
		}
		wantWritable(t, conn, resp.Body)
		if resp.Body.Close(); attempt.Err() == nil {
			t.Error("the attempt's context outlives the body")
		}
	})
}
