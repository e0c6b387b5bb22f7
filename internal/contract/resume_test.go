package contract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// An object is served in ranges. Its responses break off.
type object struct {
	content string
	etag    string
	breaks  []int // how many bytes each response has until it breaks; a response beyond these is whole
	ranges  []string
	change  func(n int, resp *http.Response) // of the n-th response, from 0
}

var errBroken = errors.New("connection reset by peer")

// A brokenBody ends with an error.
type brokenBody struct {
	io.Reader
	err    error
	closes int
}

func (b *brokenBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF && b.err != nil {
		err = b.err
	}
	return n, err
}

func (b *brokenBody) Close() error { b.closes++; return nil }

func (o *object) RoundTrip(req *http.Request) (*http.Response, error) {
	n := len(o.ranges)
	asked := req.Header.Get("Range")
	o.ranges = append(o.ranges, asked)
	first, last := 0, len(o.content)-1
	status := http.StatusOK
	if asked != "" && (req.Header.Get("If-Range") == "" || req.Header.Get("If-Range") == o.etag) {
		from, to, _ := strings.Cut(strings.TrimPrefix(asked, "bytes="), "-")
		fmt.Sscan(from, &first)
		fmt.Sscan(to, &last)
		last = min(last, len(o.content)-1)
		status = http.StatusPartialContent
	}
	rest := o.content[first : last+1]
	body := &brokenBody{Reader: strings.NewReader(rest)}
	if n < len(o.breaks) && o.breaks[n] < len(rest) {
		body.Reader, body.err = strings.NewReader(rest[:o.breaks[n]]), errBroken
	}
	resp := httpfake.Response(req, status, body, "ETag", o.etag)
	resp.ContentLength = int64(len(rest))
	if status == http.StatusPartialContent {
		resp.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(o.content)))
	}
	if o.change != nil {
		o.change(n, resp)
	}
	return resp, nil
}

var letters = strings.Repeat("abcdefghijklmnopqrstuvwxyz", 10) // 260 bytes

func TestResume(t *testing.T) {
	tests := []struct {
		name   string
		object object
		header http.Header
		ctx    func(context.Context) context.Context
		set    func(*awsretry.Transport)
		want   string // body
		err    string // a part of it; "": none
		is     error
		ranges []string // of the requests after the first
	}{
		{
			name: "nothing breaks", want: letters,
		},
		{
			name: "three breaks", object: object{breaks: []int{100, 50, 9}}, want: letters,
			ranges: []string{"bytes=100-", "bytes=150-", "bytes=159-"},
		},
		{
			name: "before the first byte", object: object{breaks: []int{0, 0}}, want: letters,
			ranges: []string{"bytes=0-", "bytes=0-"},
		},
		{
			name: "progress resets the count", object: object{breaks: []int{1, 1, 1, 1, 1, 1}}, want: letters,
			ranges: []string{"bytes=1-", "bytes=2-", "bytes=3-", "bytes=4-", "bytes=5-", "bytes=6-"},
		},
		{
			name: "without progress", object: object{breaks: []int{7, 0, 0, 0, 0}}, want: letters[:7], is: errBroken,
			err:    "gave up after 3 attempts (max_attempts): the response body broke off after 7 bytes",
			ranges: []string{"bytes=7-", "bytes=7-"},
		},
		{
			name: "a range of the caller's", object: object{breaks: []int{3}}, want: letters[10:21],
			header: http.Header{"Range": {"bytes=10-20"}}, ranges: []string{"bytes=13-20"},
		},
		{
			name: "an open range of the caller's", object: object{breaks: []int{3}}, want: letters[250:],
			header: http.Header{"Range": {"bytes=250-"}}, ranges: []string{"bytes=253-"},
		},
		{
			name: "unknown length", want: letters, ranges: []string{"bytes=100-"},
			object: object{breaks: []int{100}, change: func(n int, r *http.Response) {
				if n == 0 {
					r.ContentLength = -1
				}
			}},
		},
		{
			name: "an early end", want: letters, ranges: []string{"bytes=100-"},
			object: object{breaks: []int{100}, change: func(_ int, r *http.Response) {
				r.Body.(*brokenBody).err = nil
			}},
		},
		{
			name: "the object is replaced", want: letters[:100], err: "sent the whole object again", is: errBroken,
			object: object{breaks: []int{100}, change: func(n int, r *http.Response) {
				if n == 1 {
					r.StatusCode = 200
				}
			}}, ranges: []string{"bytes=100-"},
		},
		{
			name: "another ETag", want: letters[:100], err: `its ETag is "\"other\"", it was "\"v1\""`, is: errBroken,
			object: object{breaks: []int{100}, change: func(n int, r *http.Response) {
				if n == 1 {
					r.Header.Set("ETag", `"other"`)
				}
			}}, ranges: []string{"bytes=100-"},
		},
		{
			name: "another part", want: letters[:100], err: "sent another part than the one from byte 100 on", is: errBroken,
			object: object{breaks: []int{100}, change: func(n int, r *http.Response) {
				if n == 1 {
					r.Header.Set("Content-Range", "bytes 99-259/260")
				}
			}}, ranges: []string{"bytes=100-"},
		},
		{
			name: "another total", want: letters[:100], err: "sent another part", is: errBroken,
			object: object{breaks: []int{100}, change: func(n int, r *http.Response) {
				if n == 1 {
					r.Header.Set("Content-Range", "bytes 100-259/261")
				}
			}}, ranges: []string{"bytes=100-"},
		},
		{
			name: "416", want: letters[:100], err: "with 416", is: errBroken,
			object: object{breaks: []int{100}, change: func(n int, r *http.Response) {
				if n == 1 {
					r.StatusCode = 416
				}
			}}, ranges: []string{"bytes=100-"},
		},
		{
			name: "throttled, then the rest", want: letters,
			object: object{breaks: []int{100}, change: func(n int, r *http.Response) {
				if n == 1 {
					r.StatusCode = 429
				}
			}}, ranges: []string{"bytes=100-", "bytes=100-"},
		},
		{
			name: "a weak ETag", object: object{etag: `W/"v1"`, breaks: []int{100}}, want: letters[:100], is: errBroken,
			err: "connection reset",
		},
		{
			name: "no ETag", object: object{etag: " ", breaks: []int{100}}, want: letters[:100], is: errBroken,
			err: "connection reset",
		},
		{
			name: "the last bytes", object: object{breaks: []int{3}}, want: letters[:3], is: errBroken,
			header: http.Header{"Range": {"bytes=-260"}}, err: "connection reset",
		},
		{
			name: "decompressed", want: letters[:100], is: errBroken, err: "connection reset",
			object: object{breaks: []int{100}, change: func(_ int, r *http.Response) { r.Uncompressed = true }},
		},
		{
			name: "no tokens", object: object{breaks: []int{100}}, want: letters[:100], is: awsretry.ErrQuotaExceeded,
			err: "gave up after 1 attempt (quota): the response body broke off after 100 bytes",
			set: func(tr *awsretry.Transport) { tr.Quota.Capacity = 4 },
		},
		{
			name: "without retries", object: object{breaks: []int{100}}, want: letters[:100], is: errBroken,
			err: "connection reset", ctx: awsretry.WithoutRetry,
		},
		{
			name: "off", object: object{breaks: []int{100}}, want: letters[:100], is: errBroken,
			err: "connection reset", set: func(tr *awsretry.Transport) { tr.Resume = false },
		},
		{
			name: "too long", want: letters, err: "longer than the 260 bytes",
			object: object{change: func(_ int, r *http.Response) {
				r.Body.(*brokenBody).Reader = strings.NewReader(letters + "z")
			}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := tt.object
				o.content = letters
				if o.etag == "" {
					o.etag = `"v1"`
				}
				tr := &awsretry.Transport{Base: &o, Resume: true, Policy: retryBroken}
				if tt.set != nil {
					tt.set(tr)
				}
				ctx := t.Context()
				if tt.ctx != nil {
					ctx = tt.ctx(ctx)
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://service.example/object", nil)
				if err != nil {
					t.Fatal(err)
				}
				for name, values := range tt.header {
					req.Header[name] = values
				}
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if string(got) != tt.want {
					t.Errorf("%d bytes %q, want %d", len(got), got, len(tt.want))
				}
				if tt.err == "" && err != nil ||
					tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("the error is %v, want %q", err, tt.err)
				}
				if tt.is != nil && !errors.Is(err, tt.is) {
					t.Errorf("%v is not %v", err, tt.is)
				}
				if got := o.ranges[1:]; fmt.Sprint(got) != fmt.Sprint(tt.ranges) {
					t.Errorf("requests for %q, want %q", got, tt.ranges)
				}
			})
		})
	}
}

// retryBroken is the default policy, which does not know the broken body's
// error.
func retryBroken(a *awsretry.Attempt) awsretry.Class {
	if errors.Is(a.Err, errBroken) {
		return awsretry.Transient
	}
	return awsretry.DefaultPolicy(a)
}

// Close ends a Read that waits for the rest, and so does the context.
func TestResumeEndsWithItsCaller(t *testing.T) {
	for _, how := range []string{"Close", "cancel", "deadline"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				cause := errors.New("enough")
				if how == "deadline" {
					var end context.CancelFunc
					ctx, end = context.WithTimeoutCause(ctx, 90*time.Second, cause)
					defer end()
				}
				o := &object{content: letters, etag: `"v1"`, breaks: []int{100}}
				tr := &awsretry.Transport{
					Resume: true, Policy: retryBroken, Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
						if req.Header.Get("If-Range") != "" {
							<-req.Context().Done()
							return nil, context.Cause(req.Context())
						}
						return o.RoundTrip(req)
					}),
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://service.example/object", nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				var read bytes.Buffer
				ended := make(chan error)
				go func() {
					_, err := read.ReadFrom(resp.Body)
					ended <- err
				}()
				time.Sleep(time.Minute)
				want := cause
				switch how {
				case "Close":
					resp.Body.Close()
					want = http.ErrBodyReadAfterClose
				case "cancel":
					cancel(cause)
				}
				if err := <-ended; !errors.Is(err, want) {
					t.Errorf("Read ended with %v, want %v", err, want)
				}
				resp.Body.Close()
				if read.String() != letters[:100] {
					t.Errorf("read %q", read.String())
				}
			})
		})
	}
}

// Observers see the requests for the rest, with the byte from which they ask.
func TestResumeIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		o := &object{content: letters, etag: `"v1"`, breaks: []int{100, 30}}
		tr := &awsretry.Transport{Base: o, Resume: true, Policy: retryBroken, Observe: func(a awsretry.Attempt) {
			got = append(got, fmt.Sprint(a.Number, " from ", a.Offset, " ", a.Class, " ", a.Stop))
		}}
		resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), http.MethodGet, nil))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		want := []string{"1 from 0 success success", "2 from 100 success success", "2 from 130 success success"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q, want %q", got, want)
		}
		if tokens, _ := tr.State("service.example"); tokens.Tokens != 500 {
			t.Errorf("%d tokens, want 500: what succeeded gives back what it drew", tokens.Tokens)
		}
	})
}
