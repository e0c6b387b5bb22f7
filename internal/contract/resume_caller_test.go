package contract

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
	"example.com/awsretry/internal/httpfake"
)

// A hangingBody has some content and then nothing, until its request ends or it
// is closed, as the bodies of net/http do.
type hangingBody struct {
	io.Reader
	req    *http.Request
	closed chan struct{}
}

func hanging(req *http.Request, content string) io.ReadCloser {
	return &hangingBody{strings.NewReader(content), req, make(chan struct{})}
}

func (b *hangingBody) Read(p []byte) (int, error) {
	if n, err := b.Reader.Read(p); err == nil {
		return n, nil
	}
	select {
	case <-b.req.Context().Done():
		return 0, b.req.Context().Err()
	case <-b.req.Cancel:
		return 0, errors.New("request canceled")
	case <-b.closed:
		return 0, http.ErrBodyReadAfterClose
	}
}

func (b *hangingBody) Close() error { close(b.closed); return nil }

// The caller ends a Read wherever it waits: with Close from another goroutine,
// or with its context.
func TestResumeEndsWithItsCaller(t *testing.T) {
	for _, tt := range []struct {
		where string
		read  int
		delay time.Duration
		base  func(*object, *http.Request) (*http.Response, error)
	}{
		{
			where: "the first body", read: 100, base: func(o *object, req *http.Request) (*http.Response, error) {
				o.change = func(_ int, r *http.Response) { r.Body = hanging(req, letters[:100]) }
				return o.RoundTrip(req)
			},
		},
		{
			where: "the delay", read: 100, delay: 50 * time.Second, base: (*object).RoundTrip,
		},
		{
			where: "the request for the rest", read: 100, base: func(o *object, req *http.Request) (*http.Response, error) {
				if req.Header.Get("If-Range") == "" {
					return o.RoundTrip(req)
				}
				select {
				case <-req.Context().Done():
					return nil, req.Context().Err()
				case <-req.Cancel:
					return nil, errors.New("request canceled")
				}
			},
		},
		{
			where: "the rest", read: 150, base: func(o *object, req *http.Request) (*http.Response, error) {
				o.change = ofRest(func(r *http.Response) { r.Body = hanging(req, letters[100:150]) })
				return o.RoundTrip(req)
			},
		},
	} {
		for _, how := range []string{"Close", "cancel", "deadline", "Request.Cancel"} {
			t.Run(how+" in "+tt.where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					const after = 30 * time.Second
					cause, also := errors.New("enough"), context.Canceled
					switch how {
					case "deadline":
						if tt.delay > 0 {
							t.Skip("a delay that would end after the deadline is not begun")
						}
						var end context.CancelFunc
						ctx, end = context.WithTimeoutCause(ctx, after, cause)
						defer end()
						also = context.DeadlineExceeded
					case "Request.Cancel":
						cause = context.Canceled
					case "Close":
						cause, also = http.ErrBodyReadAfterClose, http.ErrBodyReadAfterClose
					}
					o := &object{content: letters, etag: `"v1"`, breaks: []int{100}}
					tr := &awsretry.Transport{
						Resume: true, Policy: retryBroken, Backoff: Delay(tt.delay),
						Base: httpfake.Base(func(req *http.Request) (*http.Response, error) { return tt.base(o, req) }),
					}
					req := httpfake.Request(t, ctx, http.MethodGet, nil)
					legacy := make(chan struct{})
					if how == "Request.Cancel" {
						req.Cancel = legacy
					}
					resp, err := tr.RoundTrip(req)
					if err != nil {
						t.Fatal(err)
					}
					start := time.Now()
					ended := make(chan error)
					var read []byte
					go func() {
						var err error
						read, err = io.ReadAll(resp.Body)
						ended <- err
					}()
					if how != "deadline" {
						time.Sleep(after)
					}
					switch how {
					case "Close":
						resp.Body.Close()
					case "cancel":
						cancel(cause)
					case "Request.Cancel":
						close(legacy)
					}
					err = <-ended
					if took := time.Since(start); took != after {
						t.Errorf("ended after %v", took)
					}
					if !errors.Is(err, cause) || !errors.Is(err, also) {
						t.Errorf("Read ended with %v, want %v and %v", err, cause, also)
					}
					if how != "Close" {
						wantBrokenOff(t, err, awsretry.StopCanceled, tt.read)
					}
					if string(read) != letters[:tt.read] {
						t.Errorf("read %d bytes", len(read))
					}
					if again, err := resp.Body.Read(make([]byte, 1)); again != 0 || err == nil || err == io.EOF {
						t.Errorf("another Read returned %d, %v", again, err)
					}
					resp.Body.Close()
					for n, b := range o.bodies {
						if b.Closes() != 1 {
							t.Errorf("body %d was closed %d times", n, b.Closes())
						}
					}
				})
			})
		}
	}
}

// A context that ends between two Reads ends the body too.
func TestResumeAfterTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		o := &object{content: letters, etag: `"v1"`, breaks: []int{100}}
		tr := &awsretry.Transport{Base: o, Resume: true, Policy: retryBroken}
		resp, err := tr.RoundTrip(httpfake.Request(t, ctx, http.MethodGet, nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		cancel(cause)
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		wantBrokenOff(t, err, awsretry.StopCanceled, 100)
		if !errors.Is(err, cause) || !errors.Is(err, errBroken) || len(o.ranges) != 1 {
			t.Errorf("%v after requests for %q", err, o.ranges)
		}
		o.wantClosed(t)
	})
}

// A context that ends while the service refuses the rest ends the body. Whether
// the refusal's own body has come by then makes no difference.
func TestResumeCanceledWithAResponse(t *testing.T) {
	for name, refuse := range map[string]func(*http.Response){
		"a whole one": func(r *http.Response) { r.Body = http.NoBody },
		"one that ends with the context": func(r *http.Response) {
			r.Header.Set("Content-Type", "application/xml")
			r.Body = hanging(r.Request, "<Error>")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cause := errors.New("enough")
				ctx, cancel := context.WithCancelCause(t.Context())
				o := &object{content: letters, etag: `"v1"`, breaks: []int{100}, change: ofRest(func(r *http.Response) {
					cancel(cause)
					r.StatusCode = http.StatusServiceUnavailable
					refuse(r)
				})}
				tr := &awsretry.Transport{Base: o, Resume: true, Policy: retryBroken}
				resp, err := tr.RoundTrip(httpfake.Request(t, ctx, http.MethodGet, nil))
				if err != nil {
					t.Fatal(err)
				}
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
				wantBrokenOff(t, err, awsretry.StopCanceled, 100)
				if !errors.Is(err, cause) || !errors.Is(err, context.Canceled) || !errors.Is(err, errBroken) ||
					!strings.Contains(err.Error(), "was 503") {
					t.Error(err)
				}
				o.wantClosed(t)
			})
		})
	}
}

// A body that ends early because it is closed does not look whole.
func TestEarlyEndOfAClosedBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		o := &object{content: letters, etag: `"v1"`, change: ofEach(func(r *http.Response) {
			r.Body = struct {
				io.Reader
				closer
			}{io.MultiReader(strings.NewReader(letters[:100]), httpfake.ReadFunc(func([]byte) (int, error) {
				<-closed
				return 0, io.EOF
			})), func() { close(closed) }}
		})}
		resp, err := (&awsretry.Transport{Base: o, Resume: true}).RoundTrip(
			httpfake.Request(t, t.Context(), http.MethodGet, nil))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { resp.Body.Close() })
		if got, err := io.ReadAll(resp.Body); !errors.Is(err, http.ErrBodyReadAfterClose) || len(got) != 100 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
}

// A delay that would end after the deadline is not begun.
func TestResumeBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		o := &object{content: letters, etag: `"v1"`, breaks: []int{100}}
		tr := &awsretry.Transport{Base: o, Resume: true, Policy: retryBroken, Backoff: Delay(2 * time.Minute)}
		resp, err := tr.RoundTrip(httpfake.Request(t, ctx, http.MethodGet, nil))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		wantBrokenOff(t, err, awsretry.StopDeadline, 100)
		if !errors.Is(err, errBroken) || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		o.wantClosed(t)
	})
}

// Close in the middle ends the download, whatever was read.
func TestCloseInTheMiddleOfAResumedBody(t *testing.T) {
	for _, read := range []int{0, 50, 100, 101, 259, 260} {
		synctest.Test(t, func(t *testing.T) {
			o := &object{content: letters, etag: `"v1"`, breaks: []int{100}}
			tr := &awsretry.Transport{Base: o, Resume: true, Policy: retryBroken}
			resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), http.MethodGet, nil))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(resp.Body, make([]byte, read)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := resp.Body.Close(); err != nil {
					t.Error(err)
				}
			}
			if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
				t.Errorf("Read after Close of %d bytes returned %d, %v", read, n, err)
			}
			if want := 1 + read/101; len(o.ranges) != min(want, 2) {
				t.Errorf("%d requests for %d bytes", len(o.ranges), read)
			}
			o.wantClosed(t)
		})
	}
}
