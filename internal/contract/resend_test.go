package contract_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
	"github.com/google/go-cmp/cmp"
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
						if err != nil {
							return nil, err
						}
						got = append(got, string(b))
						return httpfake.Response(req, status, http.NoBody), nil
					})
					req := httpfake.Request(t, t.Context(), "POST", nil)
					bodyKinds[kind](t, data).attachTo(req)
					req.ContentLength = length
					if _, err := tr.RoundTrip(req); err != nil {
						t.Fatal(err)
					}
					want := []string{data[:min(first, len(data))], data[:first/2], data}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
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
		for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Legacy} {
			t.Run(fmt.Sprintf("%s %+v", mode, tt), func(t *testing.T) {
				data := httpfake.Text(tt.size)
				response := httpfake.NewBody(strings.NewReader(data))
				sends := 0
				tr := retrying(func(req *http.Request) (*http.Response, error) {
					defer req.Body.Close()
					sends++
					if sends > 1 {
						if got, err := io.ReadAll(req.Body); err != nil || string(got) != data {
							t.Errorf("the retry sends %d bytes, %v", len(got), err)
						}
						return httpfake.Response(req, 200, http.NoBody), nil
					}
					if tt.read == oneRead {
						req.Body.Read(make([]byte, tt.max+1))
						return httpfake.Response(req, 503, response), nil
					}
					got, err := io.ReadAll(io.LimitReader(req.Body, int64(tt.read)))
					if want := data[:min(tt.read, tt.size)]; err != nil || string(got) != want {
						t.Errorf("the first attempt reads %d bytes, %v", len(got), err)
					}
					return httpfake.Response(req, 503, response), nil
				})
				tr.Mode, tr.MaxBodyBuffer = mode, tt.max
				source := httpfake.NewBody(io.MultiReader(strings.NewReader(data)))
				req := httpfake.Request(t, t.Context(), "POST", source)
				if tt.known {
					req.ContentLength = int64(tt.size)
				}
				resp, err := tr.RoundTrip(req)
				if err != nil || sends != tt.sends {
					t.Fatalf("%d attempts; %v", sends, err)
				}
				if sends == 1 {
					if stop := contract.StopOf(resp, nil); stop != awsretry.StopBody {
						t.Errorf("stopped by %q", stop)
					}
					if response.Closes() > 0 || httpfake.ReadAll(t, resp) != data {
						t.Error("the response is not whole")
					}
				}
				if source.Closes() != 1 {
					t.Errorf("the body was closed %d times", source.Closes())
				}
			})
		}
	}
}

// A Base that does not close the request body, like a circuit breaker that
// refuses the request, delays nothing.
func TestBaseThatNeverCloses(t *testing.T) {
	for _, tt := range []struct {
		name        string
		first, last outcome
		closes      int // of the body; a Base that has responded may still be sending it
	}{
		{"error", fails(errReset), fails(errReset), 1},
		{"503", busy, busy, 0},
		{"success at last", fails(errReset), ok, 1},
	} {
		for _, read := range []int64{0, 3, 100} {
			t.Run(fmt.Sprintf("%s, %d bytes read", tt.name, read), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sends := 0
					tr := retrying(func(req *http.Request) (*http.Response, error) {
						if sends++; sends < 3 {
							io.CopyN(io.Discard, req.Body, read)
							return tt.first(req, http.NoBody)
						}
						if tt.name != "success at last" {
							io.CopyN(io.Discard, req.Body, read)
						} else if got, err := httpfake.Receive(req); got != "a body" || err != nil {
							t.Errorf("the last attempt sends %q, %v", got, err)
						}
						return tt.last(req, http.NoBody)
					})
					source := httpfake.NewBody(strings.NewReader("a body"))
					start := time.Now()
					resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "PUT", source))
					if took := time.Since(start); took != 0 || sends != 3 {
						t.Errorf("%v, %v after %v and %d attempts", resp, err, took, sends)
					}
					if tt.closes > 0 && source.Closes() != tt.closes {
						t.Errorf("closed %d times", source.Closes())
					}
				})
			})
		}
	}
}

// The HTTP/2 of net/http closes a body before it reads it, and then sends
// the request over another connection.
func TestBaseThatSendsAgain(t *testing.T) {
	for _, attempts := range []int{1, 3} {
		t.Run(fmt.Sprintf("MaxAttempts %d", attempts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := httpfake.Serve(t, "HTTP/1.1",
					func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
				made := 0
				tr := &transport{MaxAttempts: attempts, Observe: func(awsretry.Attempt) { made++ }}
				tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
					req.Body.Close()
					return srv.Base.RoundTrip(req)
				})
				resp, err := tr.RoundTrip(srv.Request(t, "PUT", struct{ io.Reader }{strings.NewReader("a stream")}))
				if err != nil {
					t.Fatal(err)
				}
				if got := httpfake.ReadAll(t, resp); got != "a stream" || made != 1 {
					t.Errorf("echoed %q after %d attempts", got, made)
				}
			})
		})
	}
}

// An error of the caller's reader ends the call if it is known to be that.
// Otherwise it is an error like any other.
func TestFailingReader(t *testing.T) {
	broken := errors.New("disk broken")
	reader := func() io.Reader {
		return io.MultiReader(strings.NewReader("half"),
			httpfake.ReadFunc(func([]byte) (int, error) { return 0, broken }))
	}
	for _, tt := range []struct {
		name    string
		getBody func() (io.ReadCloser, error)
		sends   int
		stop    awsretry.Stop
	}{
		{"recorded", nil, 1, awsretry.StopPermanent},
		{"GetBody", func() (io.ReadCloser, error) { return io.NopCloser(reader()), nil }, 3, awsretry.StopMaxAttempts},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sends := 0
			tr := retrying(func(req *http.Request) (*http.Response, error) {
				sends++
				got, err := httpfake.Receive(req)
				if got != "half" {
					t.Errorf("attempt %d sends %q", sends, got)
				}
				return nil, err
			})
			req := httpfake.Request(t, t.Context(), "PUT", reader())
			req.GetBody = tt.getBody
			_, err := tr.RoundTrip(req)
			if sends != tt.sends || !errors.Is(err, broken) || contract.StopOf(nil, err) != tt.stop {
				t.Errorf("%v after %d attempts", err, sends)
			}
		})
	}
}

// If Base responds although the reader failed, a retry would have nothing to
// send.
func TestFailingReaderWithAResponse(t *testing.T) {
	tr := retrying(func(req *http.Request) (*http.Response, error) {
		httpfake.Receive(req)
		return httpfake.Response(req, 503, http.NoBody), nil
	})
	failing := httpfake.ReadFunc(func([]byte) (int, error) { return 0, errReset })
	resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "PUT", failing))
	if err != nil || resp.StatusCode != 503 || contract.StopOf(resp, nil) != awsretry.StopBody {
		t.Errorf("%v, %v; stopped by %q", resp, err, contract.StopOf(resp, nil))
	}
	if n := contract.TokensOf(t, tr); n != 500 {
		t.Errorf("%d tokens", n)
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
	check := func(t *testing.T, req *http.Request) {
		trailers = nil
		if _, err := tr.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		if len(trailers) != 3 {
			t.Fatalf("%d attempts", len(trailers))
		}
		trailers[0].Set("Sum", "0")
		if trailers[1].Get("Sum") != "42" || req.Trailer.Get("Sum") != "42" {
			t.Error("the trailers are one map")
		}
	}
	t.Run("filled in at the end of the body", func(t *testing.T) {
		var req *http.Request
		rest := strings.NewReader("body")
		body := httpfake.ReadFunc(func(p []byte) (int, error) {
			n, err := rest.Read(p)
			if err == io.EOF {
				req.Trailer.Set("Sum", "42")
			}
			return n, err
		})
		req = httpfake.Request(t, t.Context(), "PUT", struct{ io.Reader }{body})
		req.Trailer = http.Header{"Sum": nil}
		check(t, req)
	})
	t.Run("GetBody, with a Transport in use", func(t *testing.T) {
		req := httpfake.Request(t, t.Context(), "PUT", strings.NewReader("body"))
		req.Trailer = http.Header{"Sum": {"42"}}
		check(t, req)
	})
}
