package contract_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// Other uses of a connection work as they do without retries.

var timeouts = []time.Duration{0, time.Minute} // AttemptTimeout

// A body can be written while the response is read, one byte for each that is
// echoed.
func TestFullDuplex(t *testing.T) {
	for _, protocol := range httpfake.Protocols {
		for _, timeout := range timeouts {
			inBubble(t, fmt.Sprintf("%s, timeout %v", protocol, timeout), func(t *testing.T) {
				srv := httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					control := http.NewResponseController(w)
					if err := control.EnableFullDuplex(); err != nil && r.ProtoMajor == 1 {
						t.Error(err)
					}
					w.WriteHeader(200)
					control.Flush()
					for b := make([]byte, 1); ; control.Flush() {
						if _, err := io.ReadFull(r.Body, b); err != nil {
							return
						}
						w.Write(bytes.ToUpper(b))
					}
				})
				tr := &transport{Base: srv.Base, AttemptTimeout: timeout, MaxBodyBuffer: 3}
				pr, pw := io.Pipe()
				resp := send(tr, srv.Request(t, "POST", pr)).response(t)
				for _, c := range "duplex" {
					io.WriteString(pw, string(c))
					b := make([]byte, 1)
					if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != strings.ToUpper(string(c)) {
						t.Fatalf("%q for %q, %v", b, c, err)
					}
				}
				pw.Close()
				if got := httpfake.ReadAll(t, resp); got != "" {
					t.Errorf("then %q", got)
				}
			})
		}
	}
}

// A failure that comes while the caller waits for it, to write the body then,
// is returned. In HTTP/2 even closing such a response would wait for the body.
func TestFailureBeforeTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _ := serveInTurn(t, "HTTP/2", "busy", 503, 503, 503)
		pr, pw := io.Pipe()
		defer pw.Close()
		r := send(retryingOver(srv), srv.Request(t, "POST", pr))
		// Go 1.25 may close the body before it was read: then retries are made.
		if r.took > 1100*time.Millisecond || r.stop != awsretry.StopBody && r.stop != awsretry.StopMaxAttempts {
			t.Errorf("%v", r)
		}
		r.wantBody(t, "busy")
	})
}

// A body that is announced with Expect: 100-continue is not read before the
// server asks for it.
func TestExpectContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := httpfake.Text(5000)
		source := httpfake.NewBody(strings.NewReader(data))
		var sends atomic.Int32
		srv := httpfake.Serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
			if sends.Add(1) < 3 {
				w.WriteHeader(503)
				return
			}
			if n := source.Reads(); n != 0 {
				t.Errorf("%d reads before the server asked", n)
			}
			io.Copy(w, r.Body)
		})
		srv.Base.ExpectContinueTimeout = time.Minute
		req := srv.Request(t, "PUT", source)
		req.Header.Set("Expect", "100-continue")
		if send(retryingOver(srv), req).wantBody(t, data); sends.Load() != 3 {
			t.Fatalf("%d attempts", sends.Load())
		}
		synctest.Wait()
		wantClosed(t, source)
	})
}

// The trailers come with the end of the last response's body.
func TestTrailers(t *testing.T) {
	for _, protocol := range httpfake.Protocols {
		for _, timeout := range timeouts {
			for status, size := range map[int]int{200: 10, 201: 200_000, 503: 10, 500: 200_000} {
				name := fmt.Sprintf("%s, timeout %v, %d with %d bytes", protocol, timeout, status, size)
				inBubble(t, name, func(t *testing.T) {
					srv := httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
						io.Copy(io.Discard, r.Body)
						w.Header().Set("Trailer", "X-Sum")
						w.WriteHeader(status)
						io.WriteString(w, httpfake.Text(size))
						w.Header().Set("X-Sum", r.Trailer.Get("X-Up"))
					})
					tr := retryingOver(srv)
					tr.AttemptTimeout = timeout
					defer tr.CloseIdleConnections()
					req := srv.Request(t, "PUT", io.MultiReader(strings.NewReader("body")))
					req.Trailer = http.Header{"X-Up": {"42"}}
					r := send(tr, req)
					r.wantBody(t, httpfake.Text(size))
					if sum := r.Trailer.Get("X-Sum"); sum != "42" || r.StatusCode != status {
						t.Errorf("%v, trailers %v", r, r.Trailer)
					}
				})
			}
		}
	}
}

// serveUpgrade echoes in capitals over the connection of a request.
func serveUpgrade(t *testing.T, w http.ResponseWriter) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	rw.Flush()
	for line, err := rw.ReadString('\n'); err == nil; line, err = rw.ReadString('\n') {
		rw.WriteString(strings.ToUpper(line))
		rw.Flush()
	}
}

func upgradeRequest(t *testing.T, srv *httpfake.Server) *http.Request {
	req := srv.Request(t, "GET", nil)
	req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
	return req
}

// The connection of an upgrade that succeeds at the second attempt is the
// caller's.
func TestUpgrade(t *testing.T) {
	for _, timeout := range timeouts {
		inBubble(t, fmt.Sprintf("timeout %v", timeout), func(t *testing.T) {
			var sends atomic.Int32
			srv := httpfake.Serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
				if sends.Add(1) == 1 {
					w.WriteHeader(503)
					return
				}
				serveUpgrade(t, w)
			})
			tr := retryingOver(srv)
			tr.AttemptTimeout = timeout
			r := send(tr, upgradeRequest(t, srv))
			r.want(t, 101, awsretry.StopSuccess, 0)
			conn, ok := r.Body.(io.ReadWriteCloser)
			if !ok {
				t.Fatalf("the body is a %T", r.Body)
			}
			io.WriteString(conn, "hello\n")
			if line, err := bufio.NewReader(conn).ReadString('\n'); line != "HELLO\n" || err != nil {
				t.Errorf("%q, %v", line, err)
			}
			conn.Close()
		})
	}
}

// faults are what may become of a first attempt.
var faults = map[string]http.HandlerFunc{
	"failure at once": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) },
	"failure in the middle": func(w http.ResponseWriter, r *http.Request) {
		io.CopyN(io.Discard, r.Body, 1000)
		w.WriteHeader(429)
		io.WriteString(w, httpfake.Text(5000))
	},
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

// Every kind of body arrives whole at a later attempt, whatever became of the
// first. One Transport serves them all at once, so a connection that one request
// loses may take another request with it. This uses real sockets, whose errors
// come at other moments than those of connections in memory.
func TestReplay(t *testing.T) {
	data := httpfake.Text(200_000)
	for _, protocol := range httpfake.Protocols {
		t.Run(protocol, func(t *testing.T) {
			srv := httpfake.ServeTCP(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Attempt") == "1" {
					faults[r.Header.Get("X-Fault")](w, r)
					return
				}
				got, _ := io.ReadAll(r.Body)
				fmt.Fprint(w, r.ContentLength, " ", string(got))
			})
			tr := retryingOver(srv)
			tr.Quota.Capacity, tr.AttemptTimeout, tr.MaxAttempts = -1, time.Minute, 9
			tr.Prepare = func(req *http.Request, n int) error {
				req.Header.Set("X-Attempt", fmt.Sprint(n))
				return nil
			}
			defer tr.CloseIdleConnections()
			var all sync.WaitGroup
			for fault := range faults {
				for _, kind := range filledKinds {
					for _, length := range []int{len(data), -1} {
						all.Go(func() {
							req := srv.Request(t, "PUT", nil)
							bodyKinds[kind](t, data).attachTo(req)
							req.ContentLength = int64(length)
							req.Header.Set("X-Fault", fault)
							r := send(tr, req)
							r.wantBody(t, fmt.Sprint(length, " ", data))
							if last, _ := awsretry.Outcome(r.Response); last.Number < 2 {
								t.Errorf("%s, %s of %d bytes: %v, attempt %d", fault, kind, length, r, last.Number)
							}
						})
					}
				}
			}
			all.Wait()
		})
	}
}
