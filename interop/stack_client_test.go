package interop

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/cookiejar"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
)

// quiet is for servers whose clients leave them on purpose.
var quiet = log.New(io.Discard, "", 0)

// TestRedirects follows redirects that keep method and body, each hop of which fails once: the body is whole at the end, and
// every hop was sent twice.
func TestRedirects(t *testing.T) {
	for _, status := range []int{307, 308} {
		for _, kind := range []string{"bytes", "stream"} {
			t.Run(fmt.Sprint(status, " ", kind), func(t *testing.T) {
				seen := make(map[string]int)
				server := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					if err != nil || !bytes.Equal(body, content) || r.Method != http.MethodPut {
						t.Errorf("%s %s: %d bytes, %v", r.Method, r.URL, len(body), err)
					}
					seen[r.URL.Path]++
					switch {
					case seen[r.URL.Path] == 1:
						w.WriteHeader(http.StatusServiceUnavailable)
					case r.URL.Path == "/from":
						http.Redirect(w, r, "/to", status)
					default:
						io.WriteString(w, "here")
					}
				}), nil)
				client := &http.Client{Transport: retrying(newPool(t))}
				var body io.Reader = bytes.NewReader(content)
				if kind == "stream" {
					body = struct{ io.Reader }{body}
				}
				req, err := http.NewRequest(http.MethodPut, server.URL+"/from", body)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				answer, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if kind == "stream" { // net/http does not follow with a body that it cannot have again, and gives the redirect back
					if resp.StatusCode != status || seen["/from"] != 2 || seen["/to"] != 0 {
						t.Errorf("status %d, requests %v", resp.StatusCode, seen)
					}
					return
				}
				if resp.StatusCode != 200 || string(answer) != "here" || seen["/from"] != 2 || seen["/to"] != 2 {
					t.Errorf("status %d %q, requests %v", resp.StatusCode, answer, seen)
				}
			})
		}
	}
}

// TestClientTimeout shows that http.Client.Timeout ends an attempt, a pause, and the reading of an answer, and that a pause which it
// would cut is not begun.
func TestClientTimeout(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	slowBody := func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "half of")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	busy := answer(503, "busy")
	askLater := answer(503, "busy", "Retry-After", "30")
	for _, c := range []struct {
		name      string
		handler   http.HandlerFunc
		transport *awsretry.Transport // nil: with nothing set
		timeout   time.Duration
		status    int // 0: an error that says that it is a time-out
		sent      int64
		reading   bool // the error comes while the answer is read
	}{
		{name: "in an attempt", handler: hang, timeout: 100 * time.Millisecond, sent: 1},
		{name: "in the second attempt", handler: hang, transport: &awsretry.Transport{AttemptTimeout: 120 * time.Millisecond}, timeout: 200 * time.Millisecond, sent: 2},
		{name: "in the answer", handler: slowBody, timeout: 150 * time.Millisecond, status: 200, sent: 1, reading: true},
		{name: "before the pause would end", handler: busy, transport: &awsretry.Transport{Backoff: awsretry.Exponential{Initial: time.Hour, Max: time.Hour, Jitter: awsretry.NoJitter}}, timeout: 10 * time.Second, status: 503, sent: 1},
		{name: "before Retry-After would end", handler: askLater, timeout: 10 * time.Second, status: 503, sent: 1},
		{name: "not at all", handler: busy, timeout: 10 * time.Second, status: 503, sent: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			server := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { sent.Add(1); c.handler(w, r) }), nil)
			transport := c.transport
			if transport == nil {
				transport = new(awsretry.Transport)
			}
			transport.Base = newPool(t)
			if transport.Backoff == nil {
				transport.Backoff = briefly
			}
			began := time.Now()
			resp, err := (&http.Client{Transport: transport, Timeout: c.timeout}).Get(server.URL)
			if err == nil {
				_, readErr := io.ReadAll(resp.Body)
				resp.Body.Close()
				if c.reading {
					err = readErr
				} else if readErr != nil {
					t.Errorf("reading the answer: %v", readErr)
				}
				if resp.StatusCode != c.status {
					t.Errorf("status %d, want %d", resp.StatusCode, c.status)
				}
			}
			var timeout interface{ Timeout() bool }
			switch wantErr := c.status == 0 || c.reading; {
			case !wantErr && err != nil:
				t.Error(err)
			case wantErr && (!errors.As(err, &timeout) || !timeout.Timeout()):
				t.Errorf("the error %v is no time-out", err)
			}
			if took := time.Since(began); took > c.timeout+3*time.Second {
				t.Errorf("took %v with a time-out of %v", took, c.timeout)
			}
			if sent.Load() != c.sent {
				t.Errorf("%d attempts, want %d", sent.Load(), c.sent)
			}
		})
	}
}

// TestUpgrade switches protocols behind a failed attempt, through the Transport and through a reverse proxy that has it inside.
func TestUpgrade(t *testing.T) {
	const protocol = "echo-lines"
	var attempts atomic.Int64
	upgrade := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if attempts.Add(1)%2 == 1 {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		if r.Header.Get("Upgrade") != protocol {
			t.Errorf("Upgrade is %q", r.Header.Get("Upgrade"))
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", protocol)
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		for {
			line, err := rw.ReadString('\n')
			if err != nil {
				return
			}
			fmt.Fprintf(rw, "you said %s", line)
			rw.Flush()
		}
	})
	server := start(t, upgrade, nil)
	timed := retrying(newPool(t))
	timed.AttemptTimeout = 300 * time.Millisecond // is over with the headers of the 101
	inside := retrying(newPool(t))
	inside.AttemptTimeout = 300 * time.Millisecond
	proxy := start(t, reverseProxy(t, server.URL, inside), nil)
	for name, way := range map[string]struct {
		transport http.RoundTripper
		url       string
	}{
		"through the Transport":               {retrying(newPool(t)), server.URL},
		"through one with AttemptTimeout":     {timed, server.URL},
		"through a reverse proxy that has it": {newPool(t), proxy.URL},
	} {
		t.Run(name, func(t *testing.T) {
			attempts.Store(0)
			req, err := http.NewRequest(http.MethodGet, way.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", protocol)
			resp, err := way.transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			conn, ok := resp.Body.(io.ReadWriteCloser)
			if resp.StatusCode != http.StatusSwitchingProtocols || !ok || attempts.Load() != 2 {
				t.Fatalf("status %d with a %T after %d attempts", resp.StatusCode, resp.Body, attempts.Load())
			}
			lines := bufio.NewReader(conn)
			for i := range 3 {
				if i == 2 && strings.Contains(name, "AttemptTimeout") {
					<-time.After(400 * time.Millisecond) // longer than AttemptTimeout
				}
				fmt.Fprintf(conn, "line %d\n", i)
				if got, err := lines.ReadString('\n'); err != nil || got != fmt.Sprintf("you said line %d\n", i) {
					t.Fatalf("line %d came back as %q, %v", i, got, err)
				}
			}
		})
	}
}

// TestGzip has errors and answers compressed, by net/http's own asking and by the caller's.
func TestGzip(t *testing.T) {
	compress := func(text string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		io.WriteString(w, text)
		w.Close()
		return b.Bytes()
	}
	throttling := `{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException", "message": "…"}`
	for _, c := range []struct {
		name   string
		asked  bool // by the caller, who undoes it too
		status int  // of the failures; 400 is retried for its code alone, which has to be decompressed
		sent   int64
		final  int
	}{
		{"a throttling code", false, 400, 3, 200},
		{"a throttling code that the caller decompresses", true, 400, 1, 400},
		{"a status", true, 503, 3, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sent atomic.Int64
			server := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
					t.Error("the request does not accept gzip")
				}
				w.Header().Set("Content-Encoding", "gzip")
				w.Header().Set("Content-Type", "application/x-amz-json-1.0")
				if sent.Add(1) < 3 {
					w.WriteHeader(c.status)
					w.Write(compress(throttling))
					return
				}
				w.Write(compress(`{"Item": {}}`))
			}), nil)
			req, err := http.NewRequest(http.MethodPost, server.URL, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			if c.asked {
				req.Header.Set("Accept-Encoding", "gzip")
			}
			resp, err := retrying(newPool(t)).RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var body io.Reader = resp.Body
			if c.asked {
				if body, err = gzip.NewReader(resp.Body); err != nil {
					t.Fatal(err)
				}
			}
			got, err := io.ReadAll(body)
			want := `{"Item": {}}`
			if c.final != 200 {
				want = throttling
			}
			if err != nil || resp.StatusCode != c.final || string(got) != want || sent.Load() != c.sent {
				t.Errorf("status %d, %q, %v after %d attempts; want %d, %q after %d", resp.StatusCode, got, err, sent.Load(), c.final, want, c.sent)
			}
		})
	}
}

// TestCookies shows that a cookie which a failed attempt sets is the client's from the next request on, as it is without retries: the
// attempts of one request are the same.
func TestCookies(t *testing.T) {
	var cookies []string
	server := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookies = append(cookies, r.Header.Get("Cookie"))
		http.SetCookie(w, &http.Cookie{Name: "n", Value: fmt.Sprint(len(cookies))})
		if len(cookies) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}), nil)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: retrying(newPool(t)), Jar: jar}
	for range 2 {
		resp, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if got := strings.Join(cookies, "|"); got != "||n=2" {
		t.Errorf("the requests' cookies were %q, want none, none, and the last answer's", got)
	}
}

// TestFileInPlace uploads a file through net/http's sendfile path after a failure, and leaves the file's offset alone.
func TestFileInPlace(t *testing.T) {
	service := &failsFirst{attempts: make(map[string][]string)}
	server := start(t, service, nil)
	path := t.TempDir() + "/upload"
	if err := os.WriteFile(path, append([]byte("skip"), content...), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Seek(4, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPut, server.URL, file)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = int64(len(content))
	req.Header.Set("X-Call", t.Name())
	transport := retrying(newPool(t))
	transport.MaxBodyBuffer = -1 // nothing is held
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes came back, %v; want the %d from where the file stood", len(got), err, len(content))
	}
	if _, err := file.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Error("the file was left open")
	}
}
