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

func TestResume(t *testing.T) {
	gzip := withHeader("Content-Encoding", "gzip")
	runResumeCases(t, []resumeCase{
		{
			name: "nothing breaks", want: letters,
		},
		{
			name: "three breaks", object: object{breaks: []int{100, 50, 9}}, want: letters,
			ranges: []string{"bytes=100-", "bytes=150-", "bytes=159-"},
		},
		{
			name: "below an outer loop, which has ended with the response", want: letters,
			header: http.Header{"Amz-Sdk-Request": {"attempt=1; max=3"}},
			object: object{breaks: []int{100}, change: ofRest(withStatus(503))},
			ranges: []string{"bytes=100-", "bytes=100-"},
		},
		{
			name: "before the first byte", object: object{breaks: []int{0, 0}}, want: letters,
			ranges: []string{"", ""},
		},
		{
			name: "before the first byte of an open range of the caller's", object: object{breaks: []int{0, 0}},
			header: http.Header{"Range": {"bytes=0-"}}, want: letters, ranges: []string{"bytes=0-", "bytes=0-"},
		},
		{
			name: "before the last byte", object: object{breaks: []int{259}}, want: letters,
			ranges: []string{"bytes=259-"},
		},
		{
			name: "after the last byte", want: letters,
			object: object{change: ofEach(func(r *http.Response) {
				r.Body = io.NopCloser(&brokenBody{strings.NewReader(letters), errBroken})
			})},
		},
		{
			name: "after the last byte, before the trailers", want: letters, is: errBroken, err: "reset",
			stop: awsretry.StopPermanent,
			object: object{change: ofEach(func(r *http.Response) {
				r.Trailer = http.Header{"Sum": nil}
				r.Body = io.NopCloser(&brokenBody{strings.NewReader(letters), errBroken})
			})},
		},
		{
			name: "progress resets the count", object: object{breaks: []int{1, 1, 1, 1, 1, 1}}, want: letters,
			ranges: []string{"bytes=1-", "bytes=2-", "bytes=3-", "bytes=4-", "bytes=5-", "bytes=6-"},
		},
		{
			name: "without progress", object: object{breaks: []int{7, 0, 0, 0, 0}}, want: letters[:7], is: errBroken,
			err: "gave up after 3 attempts (max_attempts)", stop: awsretry.StopMaxAttempts,
			ranges: []string{"bytes=7-", "bytes=7-"},
		},
		{
			name: "a range of the caller's", object: object{breaks: []int{3}}, want: letters[10:21],
			header: http.Header{"Range": {"bytes=10-20"}}, ranges: []string{"bytes=13-20"},
		},
		{
			name: "a range of the caller's beyond the end", object: object{breaks: []int{3}}, want: letters[250:],
			header: http.Header{"Range": {"bytes=250-999"}}, ranges: []string{"bytes=253-259"},
		},
		{
			name: "an open range of the caller's", object: object{breaks: []int{3}}, want: letters[250:],
			header: http.Header{"Range": {"bytes=250-"}}, ranges: []string{"bytes=253-"},
		},
		{
			name: "an open range of the caller's with a part in the response", want: letters[:50],
			header: http.Header{"Range": {"bytes=0-"}}, ranges: []string{"bytes=20-49"},
			object: object{breaks: []int{20}, change: func(n int, r *http.Response) {
				if n == 0 {
					r.ContentLength = 50
					r.Header.Set("Content-Range", "bytes 0-49/260")
				}
			}},
		},
		{
			name: "the last bytes", object: object{breaks: []int{3}}, want: letters[250:],
			header: http.Header{"Range": {"bytes=-10"}}, ranges: []string{"bytes=253-259"},
		},
		{
			name: "a range of the caller's, ignored", object: object{breaks: []int{100}, change: func(n int, r *http.Response) {
				if n == 0 {
					r.StatusCode, r.ContentLength = 200, 260
					r.Header.Del("Content-Range")
					r.Body = io.NopCloser(&brokenBody{strings.NewReader(letters[:100]), errBroken})
				}
			}},
			header: http.Header{"Range": {"bytes=10-20"}, "If-Range": {`"v1"`}}, want: letters, ranges: []string{"bytes=100-"},
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
			name: "empty, of unknown length", ranges: []string{""},
			object: object{breaks: []int{0}, change: func(n int, r *http.Response) {
				if n == 0 {
					r.ContentLength = -1
				} else {
					whole("")(r)
				}
			}},
		},
		{
			name: "an early end", want: letters, ranges: []string{"bytes=100-"},
			object: object{change: func(n int, r *http.Response) {
				if n == 0 {
					holding(letters[:100])(r)
				}
			}},
		},
		{
			name: "compressed for the caller", want: letters, ranges: []string{"bytes=84-"},
			header: http.Header{"Accept-Encoding": {"gzip"}}, object: object{breaks: []int{100}, change: ofEach(gzip)},
		},
		{
			name: "a policy for idempotent requests", object: object{breaks: []int{100}}, want: letters,
			set:    func(tr *awsretry.Transport) { tr.Policy = awsretry.IdempotentOnly(retryBroken) },
			ranges: []string{"bytes=100-"},
		},
	})
}

// Other responses are not continued. The error says why, if it is about the
// response.
func TestNotResumed(t *testing.T) {
	tests := []resumeCase{
		{name: "off", set: func(tr *awsretry.Transport) { tr.Resume = false }},
		{name: "HEAD", method: http.MethodHead},
		{name: "POST", method: http.MethodPost},
		{name: "a weak ETag", object: object{etag: `W/"v1"`}, err: "its ETag is weak"},
		{name: "Last-Modified alone", object: object{
			etag: " ", change: ofEach(func(r *http.Response) {
				r.Header.Del("ETag")
				r.Header.Set("Last-Modified", "Thu, 01 Jan 2015 00:00:00 GMT")
			}),
		}, err: "it has no ETag"},
		{name: "half an ETag", object: object{etag: `"`}, err: "its ETag is not in quotes"},
		{name: "two ETags", object: object{change: ofEach(twice("Etag", `"v2"`))}, err: "it has several ETags"},
		{name: "two ETags in one line", object: object{etag: `"v1", "v2"`}, err: "it has several ETags"},
		{name: "decompressed", object: object{change: ofEach(func(r *http.Response) { r.Uncompressed = true })},
			err: "it was decompressed"},
		{name: "Accept-Ranges: none", object: object{change: ofEach(withHeader("Accept-Ranges", "none"))},
			err: "the service does not support range requests (Accept-Ranges: none)"},
		{name: "an error", object: object{change: ofEach(withStatus(404))}},
		{name: "without retries", ctx: awsretry.WithoutRetry},
		{name: "one attempt", set: func(tr *awsretry.Transport) { tr.MaxAttempts = 1 }},
		{name: "one attempt by the context", ctx: func(ctx context.Context) context.Context {
			return awsretry.WithMaxAttempts(ctx, 1)
		}},
		{name: "several ranges", header: http.Header{"Range": {"bytes=0-100,105-106"}}, object: object{
			change: ofEach(withHeader("Content-Type", "multipart/byteranges; boundary=x")),
		}},
		{name: "several ranges, one in the response", header: http.Header{"Range": {"bytes=0-100,0-259"}}},
		{name: "another part than the caller's", header: http.Header{"Range": {"bytes=0-"}}, object: object{
			change: ofEach(withHeader("Content-Range", "bytes 1-259/260")),
		}},
		{name: "no Content-Range", header: http.Header{"Range": {"bytes=0-"}}, object: object{
			change: ofEach(withHeader("Content-Range", "")),
		}},
		{name: "a part without an end", header: http.Header{"Range": {"bytes=0-"}}, object: object{
			change: ofEach(func(r *http.Response) {
				r.ContentLength = -1
				r.Header.Set("Content-Range", "bytes 0-9223372036854775807/*")
			}),
		}},
		{name: "another length", header: http.Header{"Range": {"bytes=0-"}}, object: object{
			change: ofEach(func(r *http.Response) { r.ContentLength = 259 }),
		}},
	}
	for i := range tests {
		tests[i].object.breaks = []int{100}
		tests[i].want, tests[i].is = letters[:100], errBroken
		if tests[i].err = "the body is not continued: " + tests[i].err; tests[i].err == "the body is not continued: " {
			tests[i].err = errBroken.Error()
		}
	}
	runResumeCases(t, tests)
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
		if tokens := TokensOf(t, tr); tokens != 495 {
			t.Errorf("%d tokens, want 495: the request whose response ended the body gives back what it drew", tokens)
		}
	})
}

// AttemptTimeout is the longest time of each response. The download may take
// longer.
func TestResumeAfterAttemptTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const part, interval, timeout = 20, 10 * time.Second, 35 * time.Second
		o := &object{content: letters, etag: `"v1"`}
		tr := &awsretry.Transport{
			Resume: true, AttemptTimeout: timeout, Backoff: Delay(0),
			Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
				resp, err := o.RoundTrip(req)
				src := resp.Body
				resp.Body = struct {
					io.Reader
					io.Closer
				}{httpfake.SlowReader(req.Context(), interval, httpfake.ReadFunc(func(p []byte) (int, error) {
					return src.Read(p[:min(len(p), part)])
				})), src}
				return resp, err
			}),
		}
		start := time.Now()
		resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), http.MethodGet, nil))
		if err != nil {
			t.Fatal(err)
		}
		if got := httpfake.ReadAll(t, resp); got != letters {
			t.Errorf("read %d bytes", len(got))
		}
		want := "[ bytes=60- bytes=120- bytes=180- bytes=240-]"
		if took := time.Since(start); fmt.Sprint(o.ranges) != want || took < 2*time.Minute {
			t.Errorf("%q after %v", o.ranges, took)
		}
		o.wantClosed(t)
	})
}

// In adaptive mode the request for the rest takes a send token.
func TestResumeTakesASendToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waited := make(map[int64]time.Duration)
		o := &object{content: letters, etag: `"v1"`, breaks: []int{0, 100}, change: func(n int, r *http.Response) {
			if n == 0 {
				r.StatusCode = http.StatusTooManyRequests
			}
		}}
		tr := &awsretry.Transport{
			Base: o, Resume: true, Policy: retryBroken, Mode: awsretry.Adaptive, Backoff: Delay(0),
			Observe: func(a awsretry.Attempt) { waited[a.Offset] = a.Waited },
		}
		resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), http.MethodGet, nil))
		if err != nil {
			t.Fatal(err)
		}
		if got := httpfake.ReadAll(t, resp); got != letters {
			t.Errorf("read %d bytes", len(got))
		}
		if waited[100] == 0 {
			t.Error("the request for the rest did not wait for a send token")
		}
	})
}

// With FailFast the body ends where there is no send token for the rest.
func TestResumeWithoutASendToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &object{content: letters, etag: `"v1"`, breaks: []int{0, 100}, change: func(n int, r *http.Response) {
			if n == 0 {
				r.StatusCode = http.StatusTooManyRequests
			}
		}}
		tr := &awsretry.Transport{
			Base: o, Resume: true, Policy: retryBroken, Backoff: Delay(0),
			Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{FailFast: true},
		}
		throttled, err := tr.RoundTrip(httpfake.Request(t, awsretry.WithoutRetry(t.Context()), http.MethodGet, nil))
		if err != nil {
			t.Fatal(err)
		}
		throttled.Body.Close()
		time.Sleep(2 * time.Second) // one token at the lowest rate
		resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), http.MethodGet, nil))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		wantBrokenOff(t, err, awsretry.StopRateLimit, 100)
		if !errors.Is(err, awsretry.ErrRateLimited) || !errors.Is(err, errBroken) {
			t.Error(err)
		}
		o.wantClosed(t)
	})
}

// The body does not keep the partition: another one may replace it.
func TestResumeReleasesThePartition(t *testing.T) {
	for name, breaks := range map[string][]int{"continued": {100}, "given up": {100, 0, 0, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &object{content: letters, etag: `"v1"`, breaks: breaks}
				tr := &awsretry.Transport{
					Base: o, Resume: true, Policy: retryBroken, MaxPartitions: 1,
					Quota: awsretry.QuotaConfig{Wait: true, RefillPerSecond: 1},
				}
				resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), http.MethodGet, nil))
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				if name == "continued" {
					o.breaks = nil
				}
				other := httpfake.Request(t, awsretry.WithPartition(t.Context(), "other"), http.MethodGet, nil)
				if _, err := tr.RoundTrip(other); err != nil {
					t.Fatal(err)
				}
				if _, kept := tr.State("service.example"); kept {
					t.Error("the partition of the first request is in use")
				}
				resp.Body.Close()
			})
		})
	}
}

// A panic of a hook leaves no token and no body.
func TestPanicDuringResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &object{content: letters, etag: `"v1"`, breaks: []int{100}}
		tr := &awsretry.Transport{
			Base: o, Resume: true, Policy: retryBroken, Backoff: Delay(0),
			Prepare: func(_ *http.Request, number int) error {
				if number > 1 {
					panic("hook")
				}
				return nil
			},
		}
		resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), http.MethodGet, nil))
		if err != nil {
			t.Fatal(err)
		}
		var read bytes.Buffer
		func() {
			defer func() {
				if p := recover(); p != "hook" {
					t.Errorf("recovered %v", p)
				}
			}()
			read.ReadFrom(resp.Body)
		}()
		if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err == nil || err == io.EOF {
			t.Errorf("Read after the panic returned %d, %v", n, err)
		}
		resp.Body.Close()
		if tokens := TokensOf(t, tr); tokens != 500 || read.String() != letters[:100] {
			t.Errorf("%d tokens, %d bytes", tokens, read.Len())
		}
		o.wantClosed(t)
	})
}
