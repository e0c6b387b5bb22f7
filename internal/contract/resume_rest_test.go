package contract

import (
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

// What the service sends for the rest continues the body if it is certain to
// be the rest. If it is not, Read returns an error: it never mixes the bytes of
// two versions.
func TestRestOfAResumedBody(t *testing.T) {
	noLength := func(r *http.Response) { r.ContentLength = -1 }
	ranged := func(header string) func(int, *http.Response) { return ofRest(withHeader("Content-Range", header)) }
	afterUnknownLength := func(header string) func(int, *http.Response) {
		return func(n int, r *http.Response) {
			r.ContentLength = -1
			if n == 1 {
				r.Header.Set("Content-Range", header)
			}
		}
	}
	again := []string{"bytes=84-"} // with bytes to compare
	refused := []resumeCase{
		{
			name: "a whole object of another length", err: "again with another length, 160",
			object: object{change: ofRest(withStatus(200))},
		},
		{
			name: "a whole object of another type", err: `another Content-Type, "text/html"`,
			object: object{change: ofRest(whole(letters, "Content-Type", "text/html"))},
		},
		{
			name: "another whole object under the same ETag", err: "other bytes than before under the same ETag",
			object: object{change: ofRest(whole(letters[1:] + letters[:1]))},
		},
		{
			name: "a whole object in place of a range", err: "sent the whole object again",
			header: http.Header{"Range": {"bytes=10-200"}}, want: letters[10:110], ranges: []string{"bytes=110-200"},
			object: object{change: ofRest(whole(letters))},
		},
		{
			name: "compressed ranges of an unknown length", ranges: again, err: "may compress each response by itself",
			object: object{change: ofEach(func(r *http.Response) {
				r.Header.Set("Content-Encoding", "gzip")
				noLength(r)
			})},
		},
		{
			name: "compressed, whole again, of an unknown length", ranges: again,
			err: "may compress each response by itself", object: object{change: func(n int, r *http.Response) {
				r.Header.Set("Content-Encoding", "gzip")
				if n == 1 {
					whole(letters)(r)
				}
				noLength(r)
			}},
		},
		{
			name: "the end by the length of what is not compressed", err: "was 416", ranges: again,
			object: object{change: func(n int, r *http.Response) {
				r.Header.Set("Content-Encoding", "gzip")
				noLength(r)
				if n == 1 {
					r.StatusCode, r.Body = 416, http.NoBody
					r.Header.Set("Content-Range", "bytes */100")
				}
			}},
		},
		{name: "302", err: "with 302", object: object{change: ofRest(withStatus(302))}},
		{name: "403", err: "was 403 Forbidden (ExpiredToken)", object: object{change: ofRest(func(r *http.Response) {
			r.StatusCode, r.ContentLength = 403, -1
			holding("<Error><Code>ExpiredToken</Code></Error>")(r)
		})}},
		{name: "412", err: "was 412", object: object{change: ofRest(withStatus(412))}},
		{name: "416", err: "was 416", object: object{change: ofRest(withStatus(416))}},
		{
			name: "another ETag", err: `its ETag is "\"other\"", it was "\"v1\""`,
			object: object{change: ofRest(withHeader("ETag", `"other"`))},
		},
		{name: "a weak ETag", err: `its ETag is "W/`, object: object{change: ofRest(withHeader("ETag", `W/"v1"`))}},
		{name: "no ETag", err: `its ETag is ""`, object: object{change: ofRest(withHeader("ETag", ""))}},
		{
			name: "compressed", err: `another Content-Encoding, "gzip"`,
			object: object{change: ofRest(withHeader("Content-Encoding", "gzip"))},
		},
		{
			name: "not compressed as before", ranges: again, err: `it was "gzip"`, object: object{change: func(n int, r *http.Response) {
				if n == 0 {
					r.Header.Set("Content-Encoding", "gzip")
				}
			}},
		},
		{
			name: "decompressed", err: "another Content-Encoding",
			object: object{change: ofRest(func(r *http.Response) { r.Uncompressed = true })},
		},
		{name: "two ETags", err: `its ETag is "\"v1\", \"v2\""`, object: object{change: ofRest(twice("Etag", `"v2"`))}},
		{name: "two Content-Ranges", err: "another part", object: object{
			change: ofRest(twice("Content-Range", "bytes 0-159/260")),
		}},
		{
			name: "compressed twice", ranges: again, err: `another Content-Encoding, "gzip, br"; it was "gzip"`,
			object: object{change: func(n int, r *http.Response) {
				r.Header.Set("Content-Encoding", "gzip")
				if n == 1 {
					r.Header.Add("Content-Encoding", "br")
				}
			}},
		},
		{name: "no Content-Range", err: "another part", object: object{change: ranged("")}},
		{name: "a Content-Range of other units", err: "another part", object: object{change: ranged("lines 100-259/260")}},
		{name: "an earlier part", err: "the one from byte 100 on", object: object{change: ranged("bytes 99-259/260")}},
		{name: "a later part", err: "another part", object: object{change: ranged("bytes 101-259/260")}},
		{
			name: "a part that ends before the break", ranges: again, err: "another part",
			object: object{change: func(n int, r *http.Response) {
				r.Header.Set("Content-Encoding", "gzip")
				if n == 1 {
					r.Header.Set("Content-Range", "bytes 84-90/260")
				}
			}},
		},
		{name: "another total", err: "another part", object: object{change: ranged("bytes 100-259/261")}},
		{name: "no total", err: "another part", object: object{change: ranged("bytes 100-259")}},
		{name: "a part backward", err: "another part", object: object{change: ranged("bytes 100-99/260")}},
		{name: "a part beyond the total", err: "another part", object: object{change: ranged("bytes 100-259/259")}},
		{
			name: "a part without an end", err: "another part",
			object: object{change: afterUnknownLength("bytes 100-9223372036854775807/*")},
		},
		{
			name: "a number too large", err: "another part",
			object: object{change: ranged("bytes 100-99999999999999999999/99999999999999999999")},
		},
		{
			name: "several parts", err: "another part",
			object: object{change: ofRest(func(r *http.Response) {
				noLength(r)
				r.Header.Set("Content-Type", "Multipart/ByteRanges; boundary=x")
			})},
		},
		{
			name: "a longer Content-Length", err: "sent 161 bytes with the Content-Range",
			object: object{change: ofRest(func(r *http.Response) { r.ContentLength = 161 })},
		},
		{
			name: "a shorter Content-Length", err: "sent 159 bytes with the Content-Range",
			object: object{change: ofRest(func(r *http.Response) { r.ContentLength = 159 })},
		},
	}
	for i := range refused {
		refused[i].object.breaks, refused[i].is, refused[i].stop = []int{100}, errBroken, awsretry.StopPermanent
		if refused[i].want == "" {
			refused[i].want = letters[:100]
		}
		if refused[i].ranges == nil {
			refused[i].ranges = []string{"bytes=100-"}
		}
	}
	part := func(first, last, total string) func(*http.Response) {
		return func(r *http.Response) {
			r.ContentLength = -1
			r.Header.Set("Content-Range", "bytes "+first+"-"+last+"/"+total)
			var from, to int
			fmt.Sscan(first, &from)
			fmt.Sscan(last, &to)
			holding(letters[from : to+1])(r)
		}
	}
	gzip := func(change func(*http.Response)) func(int, *http.Response) {
		return func(n int, r *http.Response) {
			r.Header.Set("Content-Encoding", "gzip")
			if n == 0 {
				r.ContentLength = -1
			} else if change != nil {
				change(r)
			}
		}
	}
	twoParts := []string{"bytes=100-", "bytes=200-"}
	continued := []resumeCase{
		{name: "a shorter part", object: object{change: ofRest(part("100", "199", "260"))}, ranges: twoParts},
		{
			name: "a shorter part, of an unknown total", ranges: twoParts,
			object: object{change: ofRest(part("100", "199", "*"))},
		},
		{
			name: "a shorter part of a body of unknown length", ranges: twoParts,
			object: object{change: func(n int, r *http.Response) {
				if r.ContentLength = -1; n == 1 {
					part("100", "199", "*")(r)
				}
			}},
		},
		{name: "the whole object", object: object{change: ofRest(whole(letters))}, ranges: []string{"bytes=100-"}},
		{
			name: "the whole object, twice broken", ranges: []string{"bytes=100-", "bytes=150-"},
			object: object{change: ofRest(wholeBrokenAfter(150))},
		},
		{name: "the whole object, broken before the rest", object: object{change: ofRest(wholeBrokenAfter(99))}},
		{
			name: "the whole object, of unknown lengths", ranges: []string{"bytes=100-"},
			object: object{change: func(n int, r *http.Response) {
				if n == 1 {
					whole(letters)(r)
				}
				r.ContentLength = -1
			}},
		},
		{name: "compressed before", object: object{change: gzip(nil)}, ranges: []string{"bytes=84-"}},
		{name: "throttled, then the rest", object: object{change: ofRest(withStatus(429))}},
		{name: "an unknown total", object: object{change: ofEach(func(r *http.Response) {
			if r.StatusCode == 206 {
				r.Header.Set("Content-Range", "bytes 100-259/*")
			}
		})}, ranges: []string{"bytes=100-"}},
		{name: "no Content-Length", object: object{change: ofEach(noLength)}, ranges: []string{"bytes=100-"}},
		{name: "Accept-Ranges in neither", ranges: []string{"bytes=100-"}},
		{name: "a body that is too short", object: object{change: ofRest(holding(letters[100:120]))},
			ranges: []string{"bytes=100-", "bytes=120-"}},
		{name: "empty reads", object: object{change: ofRest(func(r *http.Response) {
			empty, src := false, r.Body
			r.Body = struct {
				httpfake.ReadFunc
				closer
			}{func(p []byte) (int, error) {
				if empty = !empty; empty {
					return 0, nil
				}
				return src.Read(p)
			}, func() { src.Close() }}
		})}, ranges: []string{"bytes=100-"}},
	}
	for i := range continued {
		continued[i].object.breaks, continued[i].want = []int{100}, letters
		if continued[i].ranges == nil {
			continued[i].ranges = []string{"bytes=100-", "bytes=100-"}
		}
	}
	runResumeCases(t, append(refused, continued...))
}

// whole makes a response one with a whole object of that content.
func whole(content string, header ...string) func(*http.Response) {
	return func(r *http.Response) {
		r.StatusCode, r.ContentLength = http.StatusOK, int64(len(content))
		r.Header.Del("Content-Range")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		holding(content)(r)
	}
}

func wholeBrokenAfter(n int) func(*http.Response) {
	return func(r *http.Response) {
		whole(letters)(r)
		r.Body = io.NopCloser(&brokenBody{strings.NewReader(letters[:n]), errBroken})
	}
}

type closer func()

func (c closer) Close() error { c(); return nil }

// A body that is longer than announced is cut, with an error.
func TestResumedBodyIsTooLong(t *testing.T) {
	long := "longer than the 260 bytes"
	runResumeCases(t, []resumeCase{
		{
			name: "the first", err: long, want: letters, stop: awsretry.StopPermanent,
			object: object{change: ofEach(holding(letters + "z"))},
		},
		{
			name: "the rest", err: long, want: letters, stop: awsretry.StopPermanent, ranges: []string{"bytes=100-"},
			object: object{breaks: []int{100}, change: ofRest(func(r *http.Response) {
				r.ContentLength = -1
				holding(letters[100:] + "z")(r)
			})},
		},
	})
}

// Failures of the request for the rest end the body as they end a RoundTrip.
func TestRestThatFails(t *testing.T) {
	busy := func(n int, r *http.Response) {
		if n > 0 {
			r.StatusCode = http.StatusServiceUnavailable
		}
	}
	askForHours := func(n int, r *http.Response) {
		busy(n, r)
		r.Header.Set("Retry-After", "7200")
	}
	tests := []resumeCase{
		{
			name: "attempts", object: object{change: busy}, stop: awsretry.StopMaxAttempts,
			ranges: []string{"bytes=100-", "bytes=100-"}, err: "was 503",
		},
		{
			name: "no tokens", set: func(tr *awsretry.Transport) { tr.Quota.Capacity = 4 }, err: "after 1 attempt (quota)",
			is: awsretry.ErrQuotaExceeded, stop: awsretry.StopQuota,
		},
		{
			name: "tokens for one request", set: func(tr *awsretry.Transport) { tr.Quota.Capacity = 9 }, err: "was 503",
			is: awsretry.ErrQuotaExceeded, stop: awsretry.StopQuota, object: object{change: busy},
			ranges: []string{"bytes=100-"},
		},
		{
			name: "a long Retry-After", object: object{change: askForHours}, stop: awsretry.StopRetryAfter,
			ranges: []string{"bytes=100-"}, err: "was 503",
		},
		{
			name: "a policy that makes no sense", stop: awsretry.StopPermanent, err: "Policy returned",
			set: func(tr *awsretry.Transport) {
				tr.Policy = func(a *awsretry.Attempt) awsretry.Class {
					if a.Err != nil {
						return awsretry.Success
					}
					return awsretry.DefaultPolicy(a)
				}
			},
		},
		{
			name: "a Prepare that fails", stop: awsretry.StopPermanent, err: "error from Prepare: no key",
			set: func(tr *awsretry.Transport) {
				tr.Prepare = func(_ *http.Request, number int) error {
					if number > 1 {
						return errNoKey
					}
					return nil
				}
			},
		},
	}
	for i := range tests {
		tests[i].object.breaks, tests[i].want = []int{100}, letters[:100]
		if tests[i].is == nil && !strings.HasPrefix(tests[i].name, "a ") {
			tests[i].is = errBroken
		}
	}
	runResumeCases(t, tests)
}

// A Retry-After of a response to the request for the rest is obeyed.
func TestRetryAfterDuringResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &object{content: letters, etag: `"v1"`, breaks: []int{100}, change: ofRest(func(r *http.Response) {
			r.StatusCode = http.StatusServiceUnavailable
			r.Header.Set("Retry-After", "7")
		})}
		tr := &awsretry.Transport{Base: o, Resume: true, Policy: retryBroken, RetryAfterSpread: -1, Backoff: Delay(0)}
		start := time.Now()
		resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), http.MethodGet, nil))
		if err != nil {
			t.Fatal(err)
		}
		if got := httpfake.ReadAll(t, resp); got != letters || time.Since(start) != 7*time.Second {
			t.Errorf("%d bytes after %v", len(got), time.Since(start))
		}
	})
}
