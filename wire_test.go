package awsretry_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
)

// A wire is a server on loopback and a Base that speaks to it.
type wire struct {
	url    string
	base   *http.Transport
	states chan string // a closed connection's remote address, where anybody asks
}

var wires = []string{"HTTP/1.1", "HTTP/1.1 over TLS", "HTTP/2"}

// serve starts one. When the test ends, it must have left no goroutine.
func serve(t *testing.T, protocol string, handle http.HandlerFunc) *wire {
	t.Helper()
	before := runtime.NumGoroutine()
	w := &wire{states: make(chan string, 1000)}
	srv := httptest.NewUnstartedServer(handle)
	if protocol == "h2c" {
		srv.Config.Protocols = new(http.Protocols)
		srv.Config.Protocols.SetUnencryptedHTTP2(true)
	}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // of aborted handlers
	srv.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			select {
			case w.states <- c.RemoteAddr().String():
			default:
			}
		}
	}
	srv.EnableHTTP2 = protocol == "HTTP/2"
	switch protocol {
	case "HTTP/1.1", "h2c":
		srv.Start()
	default:
		srv.StartTLS()
	}
	w.url, w.base = srv.URL, srv.Client().Transport.(*http.Transport)
	if protocol == "h2c" {
		w.base.Protocols = new(http.Protocols)
		w.base.Protocols.SetUnencryptedHTTP2(true)
	}
	t.Cleanup(func() {
		w.base.CloseIdleConnections()
		srv.Close()
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for range 5000 {
			if runtime.NumGoroutine() <= before {
				return
			}
			<-ticker.C
		}
		stacks := make([]byte, 1<<16)
		t.Errorf("%d goroutines before, %d behind:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
	})
	return w
}

func (w *wire) request(t testing.TB, method string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.url+"/path", body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// TestReplayOverTheWire: every kind of body arrives whole at last, whatever befell the first attempt.
func TestReplayOverTheWire(t *testing.T) {
	data := letters(200_000)
	faults := map[string]http.HandlerFunc{
		"failure behind the body": func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(503)
		},
		"failure at once": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) },
		"failure in the middle": func(w http.ResponseWriter, r *http.Request) {
			io.CopyN(io.Discard, r.Body, 1000)
			w.WriteHeader(429)
			io.WriteString(w, letters(5000))
		},
		"reset at once": func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
		"reset in the middle": func(w http.ResponseWriter, r *http.Request) {
			io.CopyN(io.Discard, r.Body, 100_000)
			panic(http.ErrAbortHandler)
		},
		"reset behind the headers": func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(500)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
	}
	for _, protocol := range wires {
		t.Run(protocol, func(t *testing.T) {
			srv := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
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
			tr := &awsretry.Transport{Base: srv.base, Backoff: pauseOf(0), Prepare: func(req *http.Request, n int) error {
				req.Header.Set("X-Attempt", fmt.Sprint(n))
				return nil
			}}
			for fault := range faults {
				for kind, newBody := range bodyKinds {
					if kind == "nil" || kind == "NoBody" {
						continue
					}
					for _, length := range []int{len(data), -1} {
						sent := newBody(t, data)
						req := srv.request(t, "PUT", nil)
						req.Body, req.GetBody, req.ContentLength = sent.reader, sent.getBody, int64(length)
						req.Header.Set("X-Length", fmt.Sprint(length))
						req.Header.Set("X-Fault", fault)
						resp, err := tr.RoundTrip(req)
						if err != nil || resp.StatusCode != 200 {
							t.Fatalf("%s, %s: %v, %v", fault, kind, resp, err)
						}
						record, _ := awsretry.Outcome(resp)
						if got := whole(t, resp); got != fmt.Sprint(len(data)) || record.Number != 2 {
							t.Errorf("%s, %s: %s bytes by attempt %d", fault, kind, got, record.Number)
						}
					}
				}
			}
		})
	}
}

// TestFullDuplex: a body that is written when the answer's headers are there, one byte for each that comes back.
func TestFullDuplex(t *testing.T) {
	for _, protocol := range wires {
		for _, timeout := range []time.Duration{0, time.Minute} {
			t.Run(fmt.Sprint(protocol, " ", timeout), func(t *testing.T) {
				srv := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					control := http.NewResponseController(w)
					if err := control.EnableFullDuplex(); err != nil && r.ProtoMajor == 1 {
						t.Error(err)
					}
					w.WriteHeader(200)
					control.Flush()
					b := make([]byte, 1)
					for {
						if _, err := io.ReadFull(r.Body, b); err != nil {
							return
						}
						w.Write(bytes.ToUpper(b))
						control.Flush()
					}
				})
				tr := &awsretry.Transport{Base: srv.base, AttemptTimeout: timeout, MaxBodyBuffer: 3}
				pr, pw := io.Pipe()
				resp, err := tr.RoundTrip(srv.request(t, "POST", pr))
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range "duplex" {
					if _, err := io.WriteString(pw, string(c)); err != nil {
						t.Fatal(err)
					}
					b := make([]byte, 1)
					if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != strings.ToUpper(string(c)) {
						t.Fatalf("%q came back for %q, %v", b, c, err)
					}
				}
				pw.Close()
				if rest := whole(t, resp); rest != "" {
					t.Errorf("%q is left", rest)
				}
			})
		}
	}
}

// TestEarlyAnswerOverTheWire: a failure comes while the caller, who writes the body later, waits for the headers. In HTTP/2 even
// closing such an answer would wait for the body.
func TestEarlyAnswerOverTheWire(t *testing.T) {
	srv := serve(t, "HTTP/2", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(503)
		io.WriteString(w, "busy")
	})
	tr := &awsretry.Transport{Base: srv.base, Backoff: pauseOf(0)}
	pr, pw := io.Pipe()
	defer pw.Close()
	stuck := time.AfterFunc(10*time.Second, func() { pw.CloseWithError(errReset) })
	resp, err := tr.RoundTrip(srv.request(t, "POST", pr))
	if err != nil || !stuck.Stop() || stopOf(resp, nil) != awsretry.StopBody || whole(t, resp) != "busy" {
		t.Errorf("%v, %v", resp, err)
	}
}

// A closeFunc is an io.Closer.
type closeFunc func() error

func (f closeFunc) Close() error { return f() }

// TestExpectContinue: the body is not touched before the server wants it.
func TestExpectContinue(t *testing.T) {
	data := letters(5000)
	var sends atomic.Int32
	closed := make(chan struct{}, 1)
	source := track(struct {
		io.Reader
		closeFunc
	}{strings.NewReader(data), func() error { close(closed); return nil }})
	srv := serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
		if sends.Add(1) < 3 {
			w.WriteHeader(503)
			return
		}
		if n := source.reads.Load(); n != 0 {
			t.Errorf("%d reads before the server asked", n)
		}
		if got, err := io.ReadAll(r.Body); err != nil || string(got) != data {
			t.Errorf("the server got %d bytes, %v", len(got), err)
		}
	})
	srv.base.ExpectContinueTimeout = time.Minute
	tr := &awsretry.Transport{Base: srv.base, Backoff: pauseOf(0)}
	req := srv.request(t, "PUT", source)
	req.Header.Set("Expect", "100-continue")
	resp, err := tr.RoundTrip(req)
	if err != nil || resp.StatusCode != 200 || sends.Load() != 3 {
		t.Fatalf("%v, %v after %d attempts", resp, err, sends.Load())
	}
	whole(t, resp)
	select {
	case <-closed: // by net/http, when it comes to it
	case <-time.After(5 * time.Second):
		t.Error("the body is not closed")
	}
}

// TestTrailers come with the end of the last answer's body.
func TestTrailers(t *testing.T) {
	for _, protocol := range wires {
		for _, timeout := range []time.Duration{0, time.Minute} {
			for _, status := range []int{200, 503} {
				for _, size := range []int{10, 200_000} {
					srv := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
						io.Copy(io.Discard, r.Body)
						w.Header().Set("Trailer", "X-Sum")
						w.WriteHeader(status)
						io.WriteString(w, letters(size))
						w.Header().Set("X-Sum", r.Trailer.Get("X-Up"))
					})
					tr := &awsretry.Transport{Base: srv.base, Backoff: pauseOf(0), AttemptTimeout: timeout}
					req := srv.request(t, "PUT", io.MultiReader(strings.NewReader("body")))
					req.Trailer = http.Header{"X-Up": {"42"}}
					resp, err := tr.RoundTrip(req)
					if err != nil || resp.StatusCode != status {
						t.Fatal(resp, err)
					}
					if got := whole(t, resp); got != letters(size) || resp.Trailer.Get("X-Sum") != "42" {
						t.Errorf("%s, %d: %d bytes, trailers %v", protocol, status, len(got), resp.Trailer)
					}
				}
			}
		}
	}
}

// TestUpgradeOverTheWire: a refused upgrade, then one that succeeds, whose connection is the caller's.
func TestUpgradeOverTheWire(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Minute} {
		var sends atomic.Int32
		srv := serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
			if sends.Add(1) == 1 {
				w.WriteHeader(503)
				return
			}
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			rw.Flush()
			for line, err := rw.ReadString('\n'); err == nil; line, err = rw.ReadString('\n') {
				rw.WriteString(strings.ToUpper(line))
				rw.Flush()
			}
		})
		tr := &awsretry.Transport{Base: srv.base, Backoff: pauseOf(0), AttemptTimeout: timeout}
		req := srv.request(t, "GET", nil)
		req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
		resp, err := tr.RoundTrip(req)
		if err != nil || resp.StatusCode != 101 {
			t.Fatal(resp, err)
		}
		conn, ok := resp.Body.(io.ReadWriteCloser)
		if !ok {
			t.Fatalf("the body is a %T", resp.Body)
		}
		io.WriteString(conn, "hello\n")
		if line, err := bufio.NewReader(conn).ReadString('\n'); line != "HELLO\n" || err != nil {
			t.Errorf("%q, %v", line, err)
		}
		conn.Close()
	}
}

// TestManyAtOnce is for the race detector: one Transport, and requests with every kind of body and fate.
func TestManyAtOnce(t *testing.T) {
	const callers, each = 64, 6
	data := letters(3000)
	kinds := slices.Sorted(maps.Keys(bodyKinds))
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
		for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Adaptive} {
			t.Run(protocol+" "+string(mode), func(t *testing.T) {
				srv := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					switch fate := r.Header.Get("X-Fate"); {
					case fate == "failure":
						w.WriteHeader(503)
					case fate == "reset":
						panic(http.ErrAbortHandler)
					case fate == "throttled" && mode == awsretry.Standard: // else it takes long
						io.CopyN(io.Discard, r.Body, 100)
						w.WriteHeader(429)
						io.WriteString(w, `{"__type":"ThrottlingException"}`)
					default:
						b, _ := io.ReadAll(r.Body)
						w.Write(b)
					}
				})
				fates := []string{"", "failure", "reset", "throttled"}
				var seen atomic.Int32
				tr := &awsretry.Transport{Base: srv.base, Mode: mode, Backoff: pauseOf(0), AttemptTimeout: time.Minute, MaxAttempts: 9,
					Quota: awsretry.QuotaConfig{Capacity: 1_000_000, RefillPerSecond: 1},
					Prepare: func(req *http.Request, n int) error {
						if n > 1 {
							req.Header.Del("X-Fate")
						}
						return nil
					},
					Partition: func(req *http.Request) string { return req.Header.Get("X-Fate") },
					Observe:   func(awsretry.Attempt) { seen.Add(1) },
				}
				var all sync.WaitGroup
				for i := range callers {
					all.Go(func() {
						for k := range each {
							kind := kinds[(i+k)%len(kinds)]
							sent := bodyKinds[kind](t, data)
							req := srv.request(t, "PUT", nil)
							req.Body, req.GetBody = sent.reader, sent.getBody
							req.Header.Set("X-Fate", fates[(i*each+k)%len(fates)])
							resp, err := tr.RoundTrip(req)
							if err != nil {
								t.Errorf("%s: %v", kind, err)
								continue
							}
							want := data
							if sent.getBody == nil && (sent.reader == nil || sent.reader == http.NoBody) {
								want = ""
							}
							if got := whole(t, resp); got != want || resp.StatusCode != 200 {
								t.Errorf("%s: %d, %d bytes, stopped by %q", kind, resp.StatusCode, len(got), stopOf(resp, nil))
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

// TestSchemeMismatch: http.Client's own error for https spoken to an http server
// is found.
func TestSchemeMismatch(t *testing.T) {
	srv := serve(t, "HTTP/1.1", func(http.ResponseWriter, *http.Request) {})
	client := &http.Client{Transport: &awsretry.Transport{Base: srv.base}}
	_, err := client.Get(strings.Replace(srv.url, "http:", "https:", 1))
	if !errors.Is(err, http.ErrSchemeMismatch) || stopOf(nil, err) != awsretry.StopPermanent || !strings.Contains(err.Error(), http.ErrSchemeMismatch.Error()) {
		t.Error(err)
	}
	if record := (tls.RecordHeaderError{}); !errors.As(err, &record) {
		t.Errorf("%v hides the error of crypto/tls", err)
	}
}

// TestCancelRequest: what the deprecated method ends is not begun again. It knows
// no HTTP/2.
func TestCancelRequest(t *testing.T) {
	for _, protocol := range wires[:2] {
		var sends atomic.Int32
		arrived := make(chan bool, 9)
		srv := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			sends.Add(1)
			arrived <- true
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // a response could come before the cancel is noticed
		})
		req := srv.request(t, "GET", nil)
		go func() {
			<-arrived
			srv.base.CancelRequest(req) //lint:ignore SA1019 it is what is tested
		}()
		resp, err := (&awsretry.Transport{Base: srv.base, Backoff: pauseOf(0)}).RoundTrip(req)
		if err == nil || stopOf(resp, err) != awsretry.StopPermanent || sends.Load() != 1 {
			t.Errorf("%s: %v, %v after %d attempts", protocol, resp, err, sends.Load())
		}
	}
}

// TestEndsWhileTheBodyIsAwaited: a cancel and a time-out end an attempt at once
// whose request body has a Read that hangs. net/http's HTTP/1 would wait for it.
func TestEndsWhileTheBodyIsAwaited(t *testing.T) {
	for _, protocol := range wires {
		for _, getBody := range []bool{false, true} {
			for _, timeout := range []bool{false, true} {
				hang := make(chan struct{})
				srv := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
				ctx, cancel := context.WithCancelCause(t.Context())
				read := make(chan bool, 1)
				body := io.MultiReader(strings.NewReader("bo"), readFunc(func([]byte) (int, error) {
					read <- true
					<-hang
					return 0, io.EOF
				}))
				req := srv.request(t, "PUT", struct{ io.Reader }{body}).WithContext(ctx)
				tr := &awsretry.Transport{Base: srv.base, Backoff: pauseOf(0), MaxAttempts: 2}
				want := errEnough
				switch {
				case !timeout:
					go func() { <-read; cancel(errEnough) }()
				case getBody:
					tr.AttemptTimeout, want = 200*time.Millisecond, nil
				default:
					tr.AttemptTimeout, tr.MaxAttempts = 200*time.Millisecond, 1 // a retry would wait for the Read
				}
				if getBody {
					req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("body")), nil }
				}
				start := time.Now()
				resp, err := tr.RoundTrip(req)
				switch {
				case want == nil:
					if err != nil {
						t.Fatalf("%s: %v", protocol, err)
					}
					if got := whole(t, resp); got != "body" {
						t.Errorf("%s: echoed %q", protocol, got)
					}
				case timeout:
					if stopOf(resp, err) != awsretry.StopMaxAttempts {
						t.Errorf("%s: %v, %v", protocol, resp, err)
					}
				case !errors.Is(err, want):
					t.Errorf("%s: %v, %v", protocol, resp, err)
				}
				if took := time.Since(start); took > 3*time.Second {
					t.Errorf("%s, GetBody %v, time-out %v: took %v", protocol, getBody, timeout, took)
				}
				close(hang)
				cancel(nil)
				tr.CloseIdleConnections()
			}
		}
	}
}
