package contract_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// getBodyOf returns a GetBody of a text.
func getBodyOf(text string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
}

// If GetBody fails, the response is returned, and the retry is not paid for.
func TestFailingGetBody(t *testing.T) {
	for _, err := range []error{errGone, nil} {
		source := httpfake.NewBody(strings.NewReader("x"))
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			httpfake.Receive(req)
			return httpfake.Response(req, 503, httpfake.NewBody(strings.NewReader("busy"))), nil
		})
		req := httpfake.Request(t, t.Context(), "PUT", source)
		req.GetBody = func() (io.ReadCloser, error) { return nil, err }
		r := send(tr, req)
		if r.wantBody(t, "busy"); r.stop != awsretry.StopBody {
			t.Errorf("%v", r)
		}
		wantClosed(t, source)
		wantTokens(t, tr, 500)
	}
}

// A rewound is a body whose GetBody rewinds its one reader, as those of
// go-retryablehttp, connect-go and azcore do. It counts what is done at the wrong
// time.
type rewound struct {
	data string
	text *strings.Reader // of data; not embedded, for its other methods
	hang func()          // in the second Read

	mu          sync.Mutex // guards the fields below
	reads, open int
	reading     bool
	faults      int
}

func newRewound(data string) *rewound {
	return &rewound{data: data, text: strings.NewReader(data), hang: func() {}, open: 1}
}

// does counts a fault, and changes how often r is open.
func (r *rewound) does(fault bool, opens int) {
	if r.open += opens; fault {
		r.faults++
	}
}

// attachTo makes r the body of req.
func (r *rewound) attachTo(req *http.Request) *http.Request {
	req.Body, req.ContentLength = r, int64(len(r.data))
	req.GetBody = func() (io.ReadCloser, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.does(r.reading || r.open > 0, 1)
		r.text.Seek(0, io.SeekStart)
		return r, nil
	}
	return req
}

// Read returns two bytes at most.
func (r *rewound) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.does(r.reading || r.open != 1, 0)
	if r.reads++; r.reads == 2 {
		r.reading = true
		r.mu.Unlock()
		r.hang()
		r.mu.Lock()
		r.reading = false
	}
	return r.text.Read(p[:min(len(p), 2)])
}

func (r *rewound) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.does(r.reading || r.open != 1, -1)
	return nil
}

// check fails if something was done at the wrong time, or r is open.
func (r *rewound) check(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.faults > 0 || r.open != 0 {
		t.Errorf("%d faults, open %d times", r.faults, r.open)
	}
}

// A retry sends the same bytes although GetBody rewinds a reader that Base still
// reads when it responds. What is rewound too early would begin in the middle.
func TestGetBodyThatRewinds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		closes bool // Base closes the body before it responds, during a Read
		delay  time.Duration
		hangs  time.Duration
		stop   awsretry.Stop
		took   time.Duration
	}{
		{"open", false, 0, 900 * time.Millisecond, awsretry.StopSuccess, 900 * time.Millisecond},
		{"closed", true, 0, 900 * time.Millisecond, awsretry.StopSuccess, 900 * time.Millisecond},
		{"closed, hanging", true, 0, time.Minute, awsretry.StopBody, time.Second},
		{"open, hanging", false, 0, time.Minute, awsretry.StopBody, time.Second},
		{"hanging for the delay", true, 5 * time.Second, 4 * time.Second, awsretry.StopSuccess, 5 * time.Second},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			body := newRewound("hello, world")
			body.hang = func() { time.Sleep(tt.hangs) }
			sends := 0
			tr := retrying(func(req *http.Request) (*http.Response, error) {
				if sends++; sends > 1 {
					got, err := httpfake.Receive(req)
					return httpfake.Response(req, 200, io.NopCloser(strings.NewReader(got))), err
				}
				go httpfake.Receive(req)
				synctest.Wait()
				if tt.closes {
					req.Body.Close()
				}
				return httpfake.Response(req, 503, httpfake.NewBody(strings.NewReader("busy"))), nil
			})
			tr.Backoff = contract.Delay(tt.delay)
			r := send(tr, body.attachTo(httpfake.Request(t, t.Context(), "PUT", nil)))
			if tt.stop == awsretry.StopBody {
				r.want(t, 503, tt.stop, tt.took)
				r.wantBody(t, "busy")
				wantTokens(t, tr, 500)
			} else {
				r.want(t, 200, tt.stop, tt.took)
				r.wantBody(t, body.data)
			}
			time.Sleep(time.Hour)
			body.check(t)
		})
	}
}

// A reader in memory is sent again from a copy. GetBody, which may rewind it, is
// not called. The first attempt reads it on.
func TestRewindingInMemory(t *testing.T) {
	for _, inUse := range []bool{false, true} { // a Transport in use takes a shorter way
		text := strings.NewReader("skipped hello, world")
		text.Seek(int64(len("skipped ")), io.SeekStart)
		req := httpfake.Request(t, t.Context(), "PUT", text)
		req.GetBody = func() (io.ReadCloser, error) {
			text.Seek(0, io.SeekStart)
			return io.NopCloser(text), nil
		}
		var first io.Reader
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			switch {
			case req.Body == nil:
			case first == nil:
				first = req.Body
				io.CopyN(io.Discard, first, 3)
				return nil, errReset
			default:
				got, err := httpfake.Receive(req)
				again, _ := req.GetBody()
				twice, _ := io.ReadAll(again)
				rest, _ := io.ReadAll(first)
				if got != "hello, world" || string(twice) != got || string(rest) != "lo, world" || err != nil {
					t.Errorf("the retry sends %q, again %q, the first attempt %q; %v", got, twice, rest, err)
				}
			}
			return httpfake.Empty(200, req), nil
		})
		if inUse {
			sendGet(t, tr).wantBody(t, "")
		}
		send(tr, req).wantBody(t, "")
	}
}

// What signs a request reads what GetBody returns for a hash, and leaves the
// request's own body to be sent. After that GetBody still works.
func TestHashOfGetBody(t *testing.T) {
	const text = "hello, world"
	readAgain := func(t *testing.T, req *http.Request, what string) io.ReadCloser {
		t.Helper()
		again, err := req.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(again); string(got) != text || err != nil {
			t.Errorf("%s is of %q, %v", what, got, err)
		}
		return again
	}
	for _, kind := range append(filledKinds, "one reader") {
		for _, hook := range []string{"Prepare", "Prepare, which closes it", "Base", "Base, which closes it"} {
			t.Run(kind+", in "+hook, func(t *testing.T) {
				hash := func(where string, req *http.Request) {
					if closes, ok := strings.CutPrefix(hook, where); ok {
						if again := readAgain(t, req, "the hash"); closes != "" {
							again.Close()
						}
					}
				}
				sends := 0
				tr := retrying(func(req *http.Request) (*http.Response, error) {
					sends++
					hash("Base", req)
					io.CopyN(io.Discard, req.Body, 3)
					req.Body.Close()
					readAgain(t, req, "what net/http sends over another connection").Close()
					return httpfake.Empty(map[int]int{1: 503, 2: 200}[sends], req), nil
				})
				if strings.HasPrefix(hook, "Prepare") {
					tr.Prepare = func(req *http.Request, _ int) error { hash("Prepare", req); return nil }
				}
				req := httpfake.Request(t, t.Context(), "PUT", nil)
				if kind == "one reader" {
					body := newRewound(text)
					body.attachTo(req)
					defer body.check(t)
				} else {
					bodyKinds[kind](t, text).attachTo(req)
				}
				send(tr, req).wantBody(t, "")
			})
		}
	}
}

// echo sends the body back, and no response to a body that breaks off: that
// could come before net/http notices a cancel.
func echo(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(w, r.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}
