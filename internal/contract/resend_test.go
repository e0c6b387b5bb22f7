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
		for _, first := range []int{0, 1, 4999, len(data), len(data) + 1} {
			t.Run(fmt.Sprintf("%s, %d bytes read", kind, first), func(t *testing.T) {
				var got []string
				tr := retrying(func(req *http.Request) (*http.Response, error) {
					defer req.Body.Close()
					if req.ContentLength != int64(len(data)) {
						t.Errorf("attempt %d has ContentLength %d", len(got)+1, req.ContentLength)
					}
					outcome, limit := ok, int64(len(data)+1)
					if n := len(got); n < 2 { // the second attempt reads half as much
						outcome, limit = busy, int64(first>>n)
					}
					b, err := io.ReadAll(io.LimitReader(req.Body, limit))
					if got = append(got, string(b)); err != nil {
						return nil, err
					}
					return outcome(req, http.NoBody)
				})
				req := httpfake.Request(t, t.Context(), "POST", nil)
				bodyKinds[kind](t, data).attachTo(req)
				req.ContentLength = int64(len(data))
				send(tr, req).wantBody(t, "")
				if want := []string{data[:min(first, len(data))], data[:first/2], data}; !slices.Equal(got, want) {
					t.Errorf("sent %.40q, want %.40q", got, want)
				}
			})
		}
	}
}

func TestMaxBodyBuffer(t *testing.T) {
	const mib, oneRead = 1 << 20, -1
	for _, tt := range []struct {
		max        int64
		size, read int // bytes of the body, and how many the first attempt reads of it
		known      bool
		kept       bool
	}{
		{0, mib, mib + 1, false, true},
		{0, mib, mib + 1, true, true},
		{0, mib + 1, mib + 2, false, false},
		{0, mib + 1, mib + 2, true, false},
		{0, 5 * mib, mib, false, true}, // what was read fits
		{0, 5 * mib, mib, true, false}, // the rest would not
		{0, 5 * mib, 0, true, true},
		{100, 101, 100, false, true},
		{100, 101, 50, true, false},
		{100, 150, oneRead, false, true}, // it asks the source for no more than fits
		{-1, 1, 2, false, false},
		{-1, 1, 0, false, true},
		{-1, 0, 1, false, true},
	} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			data := httpfake.Text(tt.size)
			tr := retrying(firstThenEchoes(func(req *http.Request) (*http.Response, error) {
				defer req.Body.Close()
				if tt.read == oneRead {
					req.Body.Read(make([]byte, tt.max+1))
				} else if got, err := io.ReadAll(io.LimitReader(req.Body, int64(tt.read))); err != nil ||
					string(got) != data[:min(tt.read, tt.size)] {
					t.Errorf("the first attempt reads %d bytes, %v", len(got), err)
				}
				return busy(req, httpfake.NewBody(strings.NewReader("busy")))
			}))
			tr.MaxBodyBuffer = tt.max
			source := httpfake.NewBody(io.MultiReader(strings.NewReader(data)))
			req := httpfake.Request(t, t.Context(), "POST", source)
			if tt.known {
				req.ContentLength = int64(tt.size)
			}
			if r := send(tr, req); tt.kept {
				r.wantBody(t, data)
			} else {
				r.want(t, 503, awsretry.StopBody, r.took)
				r.wantBody(t, "busy")
			}
			wantClosed(t, source)
		})
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
	half := func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errDisk))), nil
	}
	recorded, _ := half()
	answered, _ := half()
	again, _ := half()
	for _, tt := range []struct {
		name    string
		body    io.ReadCloser
		getBody func() (io.ReadCloser, error)
		outcome outcome // nil: what the reader failed with
		stop    awsretry.Stop
	}{
		{"recorded", recorded, nil, nil, awsretry.StopPermanent},
		{"recorded, with a response", answered, nil, busy, awsretry.StopBody},
		{"GetBody", again, half, nil, awsretry.StopMaxAttempts},
		{"in place", unreadable{bytes.NewReader(make([]byte, 10))}, nil, nil, awsretry.StopPermanent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := retrying(func(req *http.Request) (*http.Response, error) {
				if _, err := httpfake.Receive(req); tt.outcome == nil {
					return nil, err
				}
				return tt.outcome(req, http.NoBody)
			})
			req := httpfake.Request(t, t.Context(), "PUT", nil)
			req.Body, req.GetBody, req.ContentLength = tt.body, tt.getBody, 10
			if r := send(tr, req); r.stop != tt.stop || tt.outcome == nil && !errors.Is(r.err, errDisk) {
				t.Errorf("%v", r)
			}
			if tt.getBody == nil {
				wantTokens(t, tr, 500)
			}
		})
	}
}

// Each attempt has its own trailer map, which the caller's reader fills
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
	data := httpfake.Text(1 << 20)
	for _, wrapped := range []bool{false, true} { // in an io.NopCloser
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
