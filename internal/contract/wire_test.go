package contract_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// These tests use real sockets, whose errors come at other moments than those
// of connections in memory.

// faults are what may become of a first attempt.
var faults = map[string]http.HandlerFunc{
	"failure after the body": func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(503)
	},
	"failure at once": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) },
	"failure in the middle": func(w http.ResponseWriter, r *http.Request) {
		io.CopyN(io.Discard, r.Body, 1000)
		w.WriteHeader(429)
		io.WriteString(w, httpfake.Text(5000))
	},
	"reset at once": func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
	"reset in the middle": func(w http.ResponseWriter, r *http.Request) {
		io.CopyN(io.Discard, r.Body, 100_000)
		panic(http.ErrAbortHandler)
	},
	"reset after the headers": func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(500)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	},
}

// Every kind of body arrives whole at the second attempt, whatever became of
// the first.
func TestReplay(t *testing.T) {
	data := httpfake.Text(200_000)
	for _, protocol := range httpfake.Protocols {
		srv := httpfake.ServeTCP(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			if want := r.Header.Get("X-Length"); want != fmt.Sprint(r.ContentLength) {
				t.Errorf("ContentLength %d, want %s", r.ContentLength, want)
			}
			if r.Header.Get("X-Attempt") == "1" {
				faults[r.Header.Get("X-Fault")](w, r)
				return
			}
			got, err := io.ReadAll(r.Body)
			if err != nil || string(got) != data {
				t.Errorf("the server got %d bytes, %v", len(got), err)
			}
			fmt.Fprint(w, len(got))
		})
		tr := &transport{Base: srv.Base, Backoff: contract.Delay(0), Prepare: func(req *http.Request, n int) error {
			req.Header.Set("X-Attempt", fmt.Sprint(n))
			return nil
		}}
		for fault := range faults {
			for _, kind := range filledKinds {
				for _, length := range []int{len(data), -1} {
					t.Run(fmt.Sprintf("%s, %s, %s of %d bytes", protocol, fault, kind, length), func(t *testing.T) {
						req := srv.Request(t, "PUT", nil)
						bodyKinds[kind](t, data).attachTo(req)
						req.ContentLength = int64(length)
						req.Header.Set("X-Length", fmt.Sprint(length))
						req.Header.Set("X-Fault", fault)
						resp, err := tr.RoundTrip(req)
						if err != nil || resp.StatusCode != 200 {
							t.Fatal(resp, err)
						}
						last, _ := awsretry.Outcome(resp)
						if got := httpfake.ReadAll(t, resp); got != fmt.Sprint(len(data)) || last.Number != 2 {
							t.Errorf("%s bytes by attempt %d", got, last.Number)
						}
					})
				}
			}
		}
		tr.CloseIdleConnections()
	}
}

// One Transport serves requests with every kind of body and fate at once. It is
// for the race detector.
func TestManyAtOnce(t *testing.T) {
	const callers, each = 32, 3
	data := httpfake.Text(3000)
	kinds := slices.Sorted(maps.Keys(bodyKinds))
	fates := []string{"", "failure", "reset", "throttled"}
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
		for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Adaptive} {
			t.Run(protocol+", "+string(mode), func(t *testing.T) {
				srv := httpfake.ServeTCP(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					switch fate := r.Header.Get("X-Fate"); {
					case fate == "failure":
						w.WriteHeader(503)
					case fate == "reset":
						panic(http.ErrAbortHandler)
					case fate == "throttled" && mode == awsretry.Standard: // in adaptive mode it would take long
						io.CopyN(io.Discard, r.Body, 100)
						w.WriteHeader(429)
						io.WriteString(w, throttledJSON)
					default:
						b, _ := io.ReadAll(r.Body)
						w.Write(b)
					}
				})
				var seen atomic.Int32
				tr := &transport{
					Base: srv.Base, Mode: mode, Backoff: contract.Delay(0), AttemptTimeout: time.Minute, MaxAttempts: 9,
					Quota:     awsretry.QuotaConfig{Capacity: 1_000_000, RefillPerSecond: 1},
					Partition: func(req *http.Request) string { return req.Header.Get("X-Fate") },
					Observe:   func(awsretry.Attempt) { seen.Add(1) },
					Prepare: func(req *http.Request, n int) error {
						if n > 1 {
							req.Header.Del("X-Fate")
						}
						return nil
					},
				}
				defer tr.CloseIdleConnections()
				var all sync.WaitGroup
				for i := range callers {
					all.Go(func() {
						for k := range each {
							kind := kinds[(i+k)%len(kinds)]
							req := srv.Request(t, "PUT", nil)
							bodyKinds[kind](t, data).attachTo(req)
							req.Header.Set("X-Fate", fates[(i*each+k)%len(fates)])
							resp, err := tr.RoundTrip(req)
							if err != nil {
								t.Errorf("%s: %v", kind, err)
								continue
							}
							want := data
							if !slices.Contains(filledKinds, kind) {
								want = ""
							}
							if got := httpfake.ReadAll(t, resp); got != want || resp.StatusCode != 200 {
								t.Errorf("%s: %d, %d bytes, stopped by %q",
									kind, resp.StatusCode, len(got), contract.StopOf(resp, nil))
							}
						}
					})
				}
				all.Wait()
				if n := int(seen.Load()); n < callers*each*5/4 {
					t.Errorf("%d attempts were observed", n)
				}
			})
		}
	}
}
