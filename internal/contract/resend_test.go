package contract_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// A retry sends all of the body, however much of it the attempts before read.
func TestRetriesSendTheSameBytes(t *testing.T) {
	data := httpfake.Text(10_000)
	for _, kind := range filledKinds {
		for _, first := range []int{0, 1, 3, 4999, len(data), len(data) + 1} {
			for _, length := range []int64{int64(len(data)), -1} {
				t.Run(fmt.Sprintf("%s, %d bytes read of %d", kind, first, length), func(t *testing.T) {
					var got []string
					tr := retrying(func(req *http.Request) (*http.Response, error) {
						defer req.Body.Close()
						if req.ContentLength != length {
							t.Errorf("attempt %d has ContentLength %d", len(got)+1, req.ContentLength)
						}
						status, limit := 200, int64(len(data)+1)
						if n := len(got); n < 2 { // the second attempt reads half as much
							status, limit = 503, int64(first>>n)
						}
						b, err := io.ReadAll(io.LimitReader(req.Body, limit))
						got = append(got, string(b))
						return httpfake.Response(req, status, http.NoBody), err
					})
					req := httpfake.Request(t, t.Context(), "POST", nil)
					bodyKinds[kind](t, data).attachTo(req)
					req.ContentLength = length
					send(tr, req).wantBody(t, "")
					if want := []string{data[:min(first, len(data))], data[:first/2], data}; !slices.Equal(got, want) {
						t.Errorf("sent %.40q, want %.40q", got, want)
					}
				})
			}
		}
	}
}

func TestMaxBodyBuffer(t *testing.T) {
	const mib, oneRead = 1 << 20, -1
	for _, tt := range []struct {
		max        int64
		size, read int // bytes of the body, and how many the first attempt reads of it
		known      bool
		sends      int
	}{
		{0, mib, mib + 1, false, 2},
		{0, mib, mib + 1, true, 2},
		{0, mib + 1, mib + 2, false, 1},
		{0, mib + 1, mib + 2, true, 1},
		{0, 5 * mib, mib, false, 2}, // what was read fits
		{0, 5 * mib, mib, true, 1},  // the rest would not
		{0, 5 * mib, 0, true, 2},
		{100, 99, 100, false, 2},
		{100, 100, 101, false, 2},
		{100, 101, 102, false, 1},
		{100, 101, 100, false, 2},
		{100, 101, 50, true, 1},
		{100, 150, oneRead, false, 2}, // it asks the source for no more than fits
		{-1, 1, 2, false, 1},
		{-1, 1, 0, false, 2},
		{-1, 0, 1, false, 2},
		{3 * mib, 3 * mib, 3*mib + 1, false, 2},
	} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			data := httpfake.Text(tt.size)
			sends := 0
			tr := retrying(func(req *http.Request) (*http.Response, error) {
				defer req.Body.Close()
				switch sends++; {
				case sends > 1:
					if got, err := io.ReadAll(req.Body); err != nil || string(got) != data {
						t.Errorf("the retry sends %d bytes, %v", len(got), err)
					}
					return httpfake.Response(req, 200, http.NoBody), nil
				case tt.read == oneRead:
					req.Body.Read(make([]byte, tt.max+1))
				default:
					got, err := io.ReadAll(io.LimitReader(req.Body, int64(tt.read)))
					if want := data[:min(tt.read, tt.size)]; err != nil || string(got) != want {
						t.Errorf("the first attempt reads %d bytes, %v", len(got), err)
					}
				}
				return httpfake.Response(req, 503, httpfake.NewBody(strings.NewReader("busy"))), nil
			})
			tr.MaxBodyBuffer = tt.max
			source := httpfake.NewBody(io.MultiReader(strings.NewReader(data)))
			req := httpfake.Request(t, t.Context(), "POST", source)
			if tt.known {
				req.ContentLength = int64(tt.size)
			}
			r := send(tr, req)
			if sends != tt.sends {
				t.Errorf("%v after %d attempts", r, sends)
			} else if sends == 1 {
				r.want(t, 503, awsretry.StopBody, r.took)
				r.wantBody(t, "busy")
			}
			wantClosed(t, source)
		})
	}
}

// A Base that does not close the request body, like a circuit breaker that
// refuses the request, delays nothing.
func TestBaseThatNeverCloses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		first  outcome // of two attempts
		last   outcome
		closes int // of the body; a Base that has responded may still be sending it
	}{
		{"error", fails(errReset), fails(errReset), 1},
		{"503", busy, busy, 0},
		{"success at last", fails(errReset), ok, 1},
	} {
		for _, read := range []int64{0, 3, 100} {
			inBubble(t, fmt.Sprintf("%s, %d bytes read", tt.name, read), func(t *testing.T) {
				sends := 0
				tr := retrying(func(req *http.Request) (*http.Response, error) {
					sends++
					if tt.name == "success at last" && sends == 3 {
						if got, err := httpfake.Receive(req); got != "a body" || err != nil {
							t.Errorf("the last attempt sends %q, %v", got, err)
						}
						return tt.last(req, http.NoBody)
					}
					io.CopyN(io.Discard, req.Body, read)
					return tt.first(req, http.NoBody)
				})
				source := httpfake.NewBody(strings.NewReader("a body"))
				if r := send(tr, httpfake.Request(t, t.Context(), "PUT", source)); r.took != 0 || sends != 3 {
					t.Errorf("%v and %d attempts", r, sends)
				}
				if tt.closes > 0 {
					wantClosed(t, source)
				}
			})
		}
	}
}

var errDisk = errors.New("disk on fire")

// An unreadable body has a size, but its ReadAt fails.
type unreadable struct{ *bytes.Reader }

func (unreadable) ReadAt([]byte, int64) (int, error) { return 0, errDisk }
func (unreadable) Close() error                      { return nil }

// An error of the caller's reader ends the call if it is known to be that.
// Otherwise it is an error like any other. If Base responds although the reader
// failed, a retry would have nothing to send.
func TestFailingReader(t *testing.T) {
	half := func() io.ReadCloser {
		return io.NopCloser(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errDisk)))
	}
	for _, tt := range []struct {
		name     string
		body     io.ReadCloser
		getBody  func() (io.ReadCloser, error)
		responds bool
		sends    int
		stop     awsretry.Stop
	}{
		{"recorded", half(), nil, false, 1, awsretry.StopPermanent},
		{"recorded, with a response", half(), nil, true, 1, awsretry.StopBody},
		{"GetBody", half(), func() (io.ReadCloser, error) { return half(), nil }, false, 3, awsretry.StopMaxAttempts},
		{"in place", unreadable{bytes.NewReader(make([]byte, 10))}, nil, false, 1, awsretry.StopPermanent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sends := 0
			tr := retrying(func(req *http.Request) (*http.Response, error) {
				sends++
				if _, err := httpfake.Receive(req); !tt.responds {
					return nil, err
				}
				return httpfake.Response(req, 503, http.NoBody), nil
			})
			req := httpfake.Request(t, t.Context(), "PUT", nil)
			req.Body, req.GetBody, req.ContentLength = tt.body, tt.getBody, 10
			r := send(tr, req)
			if sends != tt.sends || r.stop != tt.stop || !tt.responds && !errors.Is(r.err, errDisk) {
				t.Errorf("%v and %d attempts", r, sends)
			}
			if tt.responds {
				wantTokens(t, tr, 500)
			}
		})
	}
}

// Each attempt has a trailer map of its own, which the caller's reader fills
// in.
func TestTrailersOfTwoAttempts(t *testing.T) {
	var trailers []http.Header
	tr := retrying(func(req *http.Request) (*http.Response, error) {
		if _, ok := req.Trailer["Sum"]; !ok {
			t.Error("the trailer is not announced")
		}
		got, err := httpfake.Receive(req)
		if got != "body" || err != nil || req.Trailer.Get("Sum") != "42" {
			t.Errorf("sent %q, %v, trailer %v", got, err, req.Trailer)
		}
		trailers = append(trailers, req.Trailer)
		return httpfake.Response(req, 503, http.NoBody), nil
	})
	var filledAtTheEnd *http.Request
	filledAtTheEnd = httpfake.Request(t, t.Context(), "PUT", io.MultiReader(strings.NewReader("body"),
		httpfake.ReadFunc(func([]byte) (int, error) { filledAtTheEnd.Trailer.Set("Sum", "42"); return 0, io.EOF })))
	filledAtTheEnd.Trailer = http.Header{"Sum": nil}
	withGetBody := httpfake.Request(t, t.Context(), "PUT", strings.NewReader("body")) // the Transport is in use then
	withGetBody.Trailer = http.Header{"Sum": {"42"}}
	for _, req := range []*http.Request{filledAtTheEnd, withGetBody} {
		trailers = nil
		if send(tr, req).wantBody(t, ""); len(trailers) != 3 {
			t.Fatalf("%d attempts", len(trailers))
		}
		trailers[0].Set("Sum", "0")
		if trailers[1].Get("Sum") != "42" || req.Trailer.Get("Sum") != "42" {
			t.Error("the trailers are one map")
		}
	}
}

// Every attempt reads a file by its ReadAt, from where the caller left it.
func TestFileIsReadInPlace(t *testing.T) {
	data := httpfake.Text(3 << 20)
	for _, wrapped := range []bool{false, true} {
		file := fileAt(t, data, 1000)
		sends := 0
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			sends++
			if at, err := file.Seek(0, io.SeekCurrent); err != nil || at != 1000 {
				t.Errorf("at attempt %d the file is at %d, %v", sends, at, err)
			}
			again, err := req.GetBody()
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(again); err != nil || string(b) != data[1000:] {
				t.Errorf("GetBody gives %d bytes, %v", len(b), err)
			}
			again.Close()
			if got, err := httpfake.Receive(req); err != nil || got != data[1000:] {
				t.Errorf("attempt %d sends %d bytes, %v", sends, len(got), err)
			}
			return httpfake.Response(req, 500, http.NoBody), nil
		})
		var body io.Reader = file
		if wrapped {
			body = io.NopCloser(file)
		}
		if r := send(tr, httpfake.Request(t, t.Context(), "PUT", body)); r.err != nil || sends != 3 {
			t.Errorf("%v after %d attempts", r, sends)
		}
		if closed := errors.Is(file.Close(), os.ErrClosed); closed == wrapped {
			t.Errorf("closed: %v", closed)
		}
	}
}
