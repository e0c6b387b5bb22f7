package contract_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// attemptsOf makes tr note how many attempts each request takes.
func attemptsOf(tr *transport) *[]int {
	var attempts []int
	tr.Observe = func(a awsretry.Attempt) {
		if a.Stop != "" {
			attempts = append(attempts, a.Number)
		}
	}
	return &attempts
}

// If nothing comes back over a connection any more, the retry and later
// requests use another one of the same protocol.
func TestDeadConnection(t *testing.T) {
	for _, protocol := range append(httpfake.Protocols, "h2c") {
		for _, revision := range []awsretry.Revision{awsretry.Classic, awsretry.Revision2026} {
			t.Run(fmt.Sprint(protocol, " ", revision), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var mu sync.Mutex
					var protocols []int
					srv := httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
						mu.Lock()
						defer mu.Unlock()
						protocols = append(protocols, r.ProtoMajor)
					})
					tr := &transport{
						Base: srv.Base, Revision: revision, MaxAttempts: 4, AttemptTimeout: time.Second,
						Backoff: contract.Delay(0),
					}
					attempts := attemptsOf(tr)
					defer tr.CloseIdleConnections()
					for i := range 4 {
						if i == 1 {
							srv.Freeze()
						}
						resp, err := tr.RoundTrip(srv.Request(t, "GET", nil))
						if err != nil {
							t.Fatal(err)
						}
						httpfake.ReadAll(t, resp)
					}
					if want := []int{1, 2, 1, 1}; !slices.Equal(*attempts, want) {
						t.Errorf("the requests took %v attempts, want %v", *attempts, want)
					}
					major := 1
					if protocol == "HTTP/2" || protocol == "h2c" {
						major = 2
					}
					if want := slices.Repeat([]int{major}, 4); !slices.Equal(protocols, want) {
						t.Errorf("the server saw HTTP/%v, want %v", protocols, want)
					}
				})
			})
		}
	}
}

// Later requests use another connection too if the attempt that found it dead
// was not retried, or was not classified as a time-out.
func TestDeadConnectionWithoutRetry(t *testing.T) {
	transient := func(a *awsretry.Attempt) awsretry.Class {
		if a.Err != nil {
			return awsretry.Transient
		}
		return awsretry.DefaultPolicy(a)
	}
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
		for name, tr := range map[string]*transport{
			"one attempt":             {MaxAttempts: 1},
			"no tokens":               {Quota: awsretry.QuotaConfig{Capacity: 1}},
			"classified as transient": {Policy: transient},
		} {
			t.Run(protocol+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {})
					timeouts := 0
					tr.Base, tr.AttemptTimeout, tr.Backoff = srv.Base, time.Second, contract.Delay(0)
					tr.Observe = func(a awsretry.Attempt) {
						if a.Err != nil {
							timeouts++
						}
					}
					defer tr.CloseIdleConnections()
					for i := range 4 {
						if i == 1 {
							srv.Freeze()
						}
						if resp, err := tr.RoundTrip(srv.Request(t, "GET", nil)); err == nil {
							httpfake.ReadAll(t, resp)
						}
					}
					if timeouts != 1 {
						t.Errorf("%d attempts met the dead connection, want 1", timeouts)
					}
				})
			})
		}
	}
}

// An upgrade, which net/http sends over HTTP/1, does not make later requests
// use the dead HTTP/2 connection again.
func TestDeadConnectionAndAnUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := httpfake.Serve(t, "HTTP/2", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") == "" {
				return
			}
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			rw.Flush()
		})
		tr := &transport{Base: srv.Base, AttemptTimeout: time.Second, Backoff: contract.Delay(0)}
		attempts := attemptsOf(tr)
		defer tr.CloseIdleConnections()
		for i := range 5 {
			req, want := srv.Request(t, "GET", nil), 200
			switch i {
			case 1:
				srv.Freeze()
			case 2:
				req.Header.Set("Connection", "Upgrade")
				req.Header.Set("Upgrade", "websocket")
				want = 101
			}
			resp, err := tr.RoundTrip(req)
			if err != nil || resp.StatusCode != want {
				t.Fatal(i, resp, err)
			}
			resp.Body.Close()
		}
		if want := []int{1, 2, 1, 1, 1}; !slices.Equal(*attempts, want) {
			t.Errorf("the requests took %v attempts, want %v", *attempts, want)
		}
	})
}

// A time-out over HTTP/1 closes its own connection, and the others stay in use:
// the response after the first time-out shows that they need not be left.
func TestTimeoutsKeepThePoolOfHTTP1(t *testing.T) {
	const parallel = 4
	for name, tr := range map[string]*transport{
		"one attempt":               {MaxAttempts: 1},
		"one attempt, with a limit": {MaxAttempts: 1, AttemptTimeout: time.Second},
		"retries":                   {MaxAttempts: 2, Backoff: contract.Delay(0)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := httpfake.Serve(t, "HTTP/1.1 over TLS", func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(time.Second / 2)
					if r.Method == "DELETE" {
						<-r.Context().Done()
					}
				})
				srv.Base.ForceAttemptHTTP2, srv.Base.MaxIdleConnsPerHost = true, parallel
				srv.Base.ResponseHeaderTimeout = 2 * time.Second
				var dials atomic.Int64
				dial := srv.Base.DialContext
				srv.Base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
					dials.Add(1)
					return dial(ctx, network, address)
				}
				tr.Base = srv.Base
				defer tr.CloseIdleConnections()
				var got []int64
				for range 5 {
					dials.Store(0)
					var requests sync.WaitGroup
					for range parallel {
						requests.Go(func() {
							resp, err := tr.RoundTrip(srv.Request(t, "GET", nil))
							if err != nil {
								t.Error(err)
								return
							}
							httpfake.ReadAll(t, resp)
						})
					}
					requests.Wait()
					got = append(got, dials.Load())
					if _, err := tr.RoundTrip(srv.Request(t, "DELETE", nil)); err == nil {
						t.Error("no time-out")
					}
				}
				var total int64
				for _, n := range got[2:] {
					total += n
				}
				if got[0] != parallel || got[1] != parallel || total > 4 {
					t.Errorf("dialed %v connections for rounds of %d requests, each with a time-out after it", got, parallel)
				}
			})
		})
	}
}
