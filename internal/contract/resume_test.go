package contract_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/retrylog"
)

var (
	rangeFrom100 = []string{"bytes=100-"}
	gzipped      = withHeader("Content-Encoding", "gzip")
	broken100    = []int{100}
)

// A body that breaks off continues where it broke off.
func TestResume(t *testing.T) {
	breaks := []download{
		{name: "nothing breaks", want: letters},
		{name: "nothing breaks, nor could it continue", want: letters, object: object{each: edits{withHeader("ETag")}}},
		{name: "below an outer loop, which has ended with the response", want: letters,
			header: http.Header{"Amz-Sdk-Request": {"attempt=1; max=3"}},
			object: object{breaks: broken100, second: edits{withStatus(503)}}, ranges: []string{"bytes=100-", "bytes=100-"}},
		{name: "before the first byte", object: object{breaks: []int{0, 0}}, want: letters, ranges: []string{"", ""}},
		{name: "before the first byte of an open range", object: object{breaks: []int{0}}, want: letters,
			header: http.Header{"Range": {"bytes=0-"}}, ranges: []string{"bytes=0-"}},
		{name: "after the last byte", want: letters, object: object{each: edits{breakingAfter(letters, nil)}}},
		{name: "after the last byte, before the trailers", want: letters, is: errBroken, err: errBroken.Error(),
			stop: awsretry.StopPermanent, object: object{each: edits{withTrailer, breakingAfter(letters, nil)}}},
		{name: "progress resets the count", object: object{breaks: []int{1, 1, 1, 1}}, want: letters,
			ranges: []string{"bytes=1-", "bytes=2-", "bytes=3-", "bytes=4-"}},
		{name: "without progress", object: object{breaks: []int{7, 0, 0, 0}}, want: letters[:7], is: errBroken,
			err: "gave up after 3 attempts (max_attempts)", stop: awsretry.StopMaxAttempts,
			ranges: []string{"bytes=7-", "bytes=7-"}},
		{name: "an early end", want: letters, object: object{first: edits{holding(letters[:100])}}, ranges: rangeFrom100},
		{name: "ends that come with the last bytes", want: letters, ranges: rangeFrom100,
			object: object{first: edits{holding(letters[:100])}, each: edits{func(r *http.Response) {
				r.Body = io.NopCloser(iotest.DataErrReader(r.Body))
			}}}},
		{name: "unknown length", want: letters, object: object{breaks: broken100, first: edits{noLength}},
			ranges: rangeFrom100},
		{name: "empty, of unknown length", ranges: []string{""},
			object: object{breaks: []int{0}, first: edits{noLength}, second: edits{whole("")}}},
		// What would be the failure of a handshake before the headers is a break
		// of the body after them, such as a record that was damaged on the way.
		{name: "a TLS alert", want: letters, ranges: rangeFrom100,
			object: object{breaks: broken100, cause: &net.OpError{Op: "local error", Err: tls.AlertError(20)}}},
		{name: "a stall", want: letters, took: 11 * time.Second, ranges: []string{"bytes=9-"},
			set:    func(tr *transport) { tr.StallTimeout = 10 * time.Second },
			object: object{first: edits{func(r *http.Response) { r.Body = hanging(r.Request, letters[:9]) }}}},
		// Three Reads of 10 s fit into each attempt, and a fourth one does not.
		{name: "AttemptTimeout is that of each response", want: letters, took: 4*36*time.Second + 20*time.Second,
			set: func(tr *transport) { tr.AttemptTimeout = 35 * time.Second }, object: object{each: edits{slow}},
			ranges: []string{"bytes=60-", "bytes=120-", "bytes=180-", "bytes=240-"}},
	}
	for _, r := range []struct {
		name, asked, want string
		object            object
		rest              string
	}{
		{"a range", "bytes=10-20", letters[10:21], object{breaks: []int{3}}, "bytes=13-20"},
		{"a range beyond the end", "bytes=250-999", letters[250:], object{breaks: []int{3}}, "bytes=253-259"},
		{"an open range", "bytes=250-", letters[250:], object{breaks: []int{3}}, "bytes=253-"},
		{"the last bytes", "bytes=-10", letters[250:], object{breaks: []int{3}}, "bytes=253-259"},
		{"an open range, of which a part comes", "bytes=0-", letters[:50], object{breaks: []int{20},
			first: edits{withLength(50), withHeader("Content-Range", "bytes 0-49/260")}}, "bytes=20-49"},
		{"a range that is ignored", "bytes=10-20", letters, object{breaks: broken100,
			first: edits{whole(letters), breakingAfter(letters[:100], nil)}}, "bytes=100-"},
	} {
		breaks = append(breaks, download{name: "the caller's Range: " + r.name, object: r.object, want: r.want,
			header: http.Header{"Range": {r.asked}, "If-Range": {`"v1"`}}, ranges: []string{r.rest}})
	}
	runDownloads(t, breaks)
}

// slow makes each Read of the body bring 20 bytes after 10 s.
func slow(r *http.Response) {
	src := r.Body
	r.Body = io.NopCloser(httpfake.SlowReader(r.Request.Context(), 10*time.Second,
		httpfake.ReadFunc(func(p []byte) (int, error) { return src.Read(p[:min(len(p), 20)]) })))
}

// Other responses are not continued. The error says why, if it is about the
// response.
func TestNotResumed(t *testing.T) {
	open := http.Header{"Range": {"bytes=0-"}}
	tests := []download{
		{name: "off", set: func(tr *transport) { tr.Resume = false }},
		{name: "POST", method: "POST"},
		{name: "without retries", ctx: option(awsretry.WithoutRetry)},
		{name: "one attempt", set: func(tr *transport) { tr.MaxAttempts = 1 }},
		{name: "an error", object: object{each: edits{withStatus(404)}}},
		{name: "a weak ETag", object: object{each: edits{withHeader("ETag", `W/"v1"`)}}, err: "its ETag is weak"},
		{name: "no ETag", object: object{each: edits{withHeader("ETag")}}, err: "it has no ETag"},
		{name: "decompressed", object: object{each: edits{func(r *http.Response) { r.Uncompressed = true }}},
			err: "it was decompressed"},
		{name: "another part than the caller's", header: open, err: "nor the one range",
			object: object{each: edits{withHeader("Content-Range", "bytes 1-259/260")}}},
		{name: "another length than the part's", header: open, err: "nor the one range",
			object: object{each: edits{withLength(259)}}},
	}
	for i := range tests {
		d := &tests[i]
		d.object.breaks, d.want, d.is = broken100, letters[:100], errBroken
		if d.err == "" {
			d.err = errBroken.Error()
		} else if !strings.HasPrefix(d.err, "nor") {
			d.err = "the body is not continued: " + d.err
		}
	}
	runDownloads(t, tests)
}

// option makes a With… function one of a download.
func option(with func(context.Context) context.Context) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) { return with(ctx), func() {} }
}

// What the service sends for the rest continues the body if it is certain to
// be the rest. If it is not, Read returns an error: it never mixes the bytes of
// two versions.
func TestRestOfAResumedBody(t *testing.T) {
	other := func(contentRange string) object {
		return object{second: edits{withHeader("Content-Range", contentRange)}}
	}
	again := []string{"bytes=84-"} // with bytes to compare
	refused := []download{
		{name: "another ETag", object: object{second: edits{withHeader("ETag", `"v2"`)}},
			err: `its ETag is "\"v2\"", it was "\"v1\""`},
		{name: "no Content-Range", object: object{second: edits{withHeader("Content-Range")}}, err: "another part"},
		{name: "an earlier part", object: other("bytes 99-259/260"), err: "the one from byte 100 on"},
		{name: "another total", object: other("bytes 100-259/261"), err: "another part"},
		{name: "a part beyond the end", object: other("bytes 100-260/*"), err: "another part"},
		{name: "a part that ends before the break", ranges: again, err: "another part",
			object: object{each: edits{gzipped}, second: edits{withHeader("Content-Range", "bytes 84-90/260")}}},
		{name: "a longer Content-Length", object: object{second: edits{withLength(161)}},
			err: "sent 161 bytes with the Content-Range"},

		{name: "a whole object of another length", object: object{second: edits{withStatus(200)}},
			err: "again with another length, 160"},
		{name: "a shorter whole object of unknown length", err: "again with another length, 99",
			object: object{first: edits{noLength}, second: edits{whole(letters[:99])}}},
		{name: "a whole object of another type", err: `another Content-Type, "text/html"`,
			object: object{second: edits{whole(letters), withHeader("Content-Type", "text/html")}}},
		{name: "another whole object under the same ETag", err: "other bytes than before under the same ETag",
			object: object{second: edits{whole(letters[1:] + letters[:1])}}},
		{name: "a whole object in place of a range", object: object{second: edits{whole(letters)}},
			header: http.Header{"Range": {"bytes=10-200"}}, want: letters[10:110], ranges: []string{"bytes=110-200"},
			err: "sent the whole object again"},

		{name: "not compressed as before", ranges: again, object: object{first: edits{gzipped}}, err: `it was "gzip"`},
		{name: "decompressed", object: object{second: edits{func(r *http.Response) { r.Uncompressed = true }}},
			err: "another Content-Encoding"},
		{name: "compressed ranges of an unknown length", ranges: again, err: "may compress each response by itself",
			object: object{each: edits{gzipped, noLength}}},
		{name: "compressed, whole again, of an unknown length", ranges: again,
			err:    "may compress each response by itself",
			object: object{second: edits{whole(letters)}, each: edits{gzipped, noLength}}},
		{name: "the end by the length of what is not compressed", err: "was 416", ranges: again, object: object{
			second: edits{withStatus(416), withHeader("Content-Range", "bytes */100")}, each: edits{gzipped, noLength}}},

		{name: "302", object: object{second: edits{withStatus(302)}}, err: "with 302"},
		{name: "403", err: "was 403 Forbidden (ExpiredToken)", object: object{second: edits{
			withStatus(403), noLength, holding("<Error><Code>ExpiredToken</Code></Error>")}}},
	}
	for i := range refused {
		d := &refused[i]
		d.object.breaks, d.is, d.stop = broken100, errBroken, awsretry.StopPermanent
		if d.want == "" {
			d.want = letters[:100]
		}
		if d.ranges == nil {
			d.ranges = rangeFrom100
		}
	}
	twoParts := []string{"bytes=100-", "bytes=200-"}
	continued := []download{
		{name: "the rest"},
		{name: "of an unknown total", object: object{second: edits{withHeader("Content-Range", "bytes 100-259/*")}}},
		{name: "compressed before", object: object{first: edits{noLength}, each: edits{gzipped}}, ranges: again},
		{name: "throttled, then the rest", object: object{second: edits{withStatus(429)}},
			ranges: []string{"bytes=100-", "bytes=100-"}},
		{name: "a shorter part", object: object{second: edits{part(100, 199, "260")}}, ranges: twoParts},
		{name: "a shorter part of an unknown total", object: object{second: edits{part(100, 199, "*")}}, ranges: twoParts},
		{name: "a shorter part of a body of unknown length", ranges: twoParts,
			object: object{first: edits{noLength}, second: edits{part(100, 199, "*")}, later: edits{noLength}}},
		{name: "a body that is too short", object: object{second: edits{holding(letters[100:120])}},
			ranges: []string{"bytes=100-", "bytes=120-"}},
		{name: "the whole object", object: object{second: edits{whole(letters)}}},
		{name: "the whole object, of unknown lengths", object: object{second: edits{whole(letters)}, each: edits{noLength}}},
		{name: "the whole object, twice broken", ranges: []string{"bytes=100-", "bytes=150-"},
			object: object{second: edits{whole(letters), breakingAfter(letters[:150], nil)}}},
		{name: "the whole object, broken before the rest", ranges: []string{"bytes=100-", "bytes=100-"},
			object: object{second: edits{whole(letters), breakingAfter(letters[:99], nil)}}},
		{name: "empty Reads", object: object{second: edits{func(r *http.Response) {
			empty, src := false, r.Body
			r.Body = io.NopCloser(httpfake.ReadFunc(func(p []byte) (int, error) {
				if empty = !empty; empty {
					return 0, nil
				}
				return src.Read(p)
			}))
		}}}},
	}
	for i := range continued {
		d := &continued[i]
		d.object.breaks, d.want = broken100, letters
		if d.ranges == nil {
			d.ranges = rangeFrom100
		}
	}
	runDownloads(t, append(refused, continued...))
}

// A body of unknown length of which only the end was lost is complete if the
// service says that there is no rest. One that is longer than announced is cut,
// with an error.
func TestEndOfAResumedBody(t *testing.T) {
	var tests []download
	for _, tt := range []struct {
		name, contentRange, etag string
		status                   int
		err                      string // "": the body is complete
	}{
		{"no rest", "bytes */260", `"v1"`, 416, ""},
		{"no rest of another version", "bytes */260", `"v2"`, 416, "was 416"},
		{"another length", "bytes */261", `"v1"`, 416, "was 416"},
		{"another status", "bytes */260", `"v1"`, 412, "was 412"},
	} {
		tests = append(tests, download{name: tt.name, want: letters, err: tt.err, ranges: []string{"bytes=260-"},
			object: object{
				first:  edits{noLength, breakingAfter(letters, nil)},
				second: edits{withStatus(tt.status), withHeader("Content-Range", tt.contentRange), withHeader("ETag", tt.etag)},
			}})
	}
	const long = "awsretry: gave up after 1 attempt (permanent): the response body broke off after 260 bytes: " +
		"the body is longer than the 260 bytes that were announced"
	runDownloads(t, append(tests,
		download{name: "too long", err: long, want: letters, stop: awsretry.StopPermanent,
			object: object{each: edits{holding(letters + "z")}}},
		// The rest has mended the break before it.
		download{name: "a rest that is too long", err: long, isNot: errBroken, want: letters, stop: awsretry.StopPermanent,
			ranges: rangeFrom100, object: object{breaks: broken100, second: edits{noLength, holding(letters[100:] + "z")}}},
	))
}

// Failures of the request for the rest end the body as they end a RoundTrip.
func TestRestThatFails(t *testing.T) {
	busy := edits{withStatus(503)}
	tests := []download{
		{name: "attempts", object: object{later: busy}, stop: awsretry.StopMaxAttempts,
			ranges: []string{"bytes=100-", "bytes=100-"}, err: "was 503", is: errBroken},
		{name: "tokens for one request", set: func(tr *transport) { tr.Quota.Capacity = 9 }, err: "was 503",
			is: awsretry.ErrQuotaExceeded, stop: awsretry.StopQuota, object: object{later: busy}, ranges: rangeFrom100},
		{name: "a delay that would end after the deadline", err: errBroken.Error(), is: errBroken,
			set: longDelay, stop: awsretry.StopDeadline, ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Minute)
			}},
		{name: "a policy that makes no sense", stop: awsretry.StopPermanent, err: "Policy returned",
			set: func(tr *transport) {
				tr.Policy = func(a *awsretry.Attempt) awsretry.Class {
					if a.Err != nil {
						return awsretry.Success
					}
					return awsretry.DefaultPolicy(a)
				}
			}},
	}
	for i := range tests {
		tests[i].object.breaks, tests[i].want = broken100, letters[:100]
	}
	runDownloads(t, tests)
}

// Observers see the requests for the rest, with the byte from which they ask. A
// break that no attempt follows is reported once, with the reason.
func TestResumeIsObserved(t *testing.T) {
	for name, tt := range map[string]struct {
		quota  awsretry.QuotaConfig
		want   []string
		tokens int
	}{
		"continued": {awsretry.QuotaConfig{},
			[]string{"1 success success 0", "2 success success 100", "2 success success 130"}, 495},
		"given up": {awsretry.QuotaConfig{Capacity: 1}, []string{"1 success success 0", "1 transient quota 100"}, 1},
	} {
		inBubble(t, name, func(t *testing.T) {
			var got []string
			var log strings.Builder
			logTo := awsretry.LogTo(slog.New(slog.NewTextHandler(&log, nil)))
			tr := continuing(&object{breaks: []int{100, 30}})
			tr.Quota, tr.Observe = tt.quota, func(a awsretry.Attempt) {
				got = append(got, fmt.Sprintf("%d %v %s %d", a.Number, a.Class, a.Stop, a.Offset))
				logTo(a)
			}
			_, err := readToEnd(sendGet(t, tr).response(t))
			if (err != nil) != strings.Contains(log.String(), "offset=100") {
				t.Errorf("%v; logged %s", err, log.String())
			}
			// The request whose response ended the body gives back what it drew.
			if wantTokens(t, tr, tt.tokens); !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// In the log, the attempts of a call have its attribute call in common, also those
// that continue its body, and are counted from the first one. max_attempts rises by
// the attempts before the last byte.
func TestLogOfAResumedCall(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		var log strings.Builder
		busy := 0
		answer := func(base http.RoundTripper) httpfake.Base {
			return func(req *http.Request) (*http.Response, error) {
				if busy++; busy%3 == 1 { // the first attempt of each call, and some of those for the rest
					return httpfake.Response(req, 503, http.NoBody), nil
				}
				return base.RoundTrip(req)
			}
		}
		line := regexp.MustCompile(`call=(\w+) attempt=(\d+) max_attempts=(\d+) class=(\w+)( offset=\d+)?`)
		show := retrylog.Config{All: true, Logger: httpfake.Log(&log)}.Observer()
		calls := make(map[string]bool)
		for range 2 {
			busy = 0
			tr := continuing(answer(&object{breaks: []int{100, 30, 20}}))
			tr.Observe = show
			if body, err := readToEnd(sendGet(t, tr).response(t)); err != nil || body != letters {
				t.Fatalf("%q, %v", body, err)
			}
			var got []string
			for _, m := range line.FindAllStringSubmatch(log.String(), -1) {
				calls[m[1]] = true
				got = append(got, m[2]+" of "+m[3]+" "+m[4]+m[5])
			}
			want := []string{
				"1 of 3 transient", "2 of 3 success", "3 of 4 success offset=100", "4 of 5 transient offset=130",
				"5 of 5 success offset=130", "6 of 7 success offset=150",
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			log.Reset()
		}
		if len(calls) != 2 {
			t.Errorf("two calls have the names %v", calls)
		}
	})
}

// A call for the rest that is refused is logged with the others of its call.
func TestLogOfARefusedRest(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		var log strings.Builder
		tr := continuing(&object{breaks: []int{100, 30}})
		tr.Observe = retrylog.Config{All: true, Logger: httpfake.Log(&log)}.Observer()
		sent := 0
		tr.Prepare = func(*http.Request, int) error {
			if sent++; sent == 3 {
				return errBroken
			}
			return nil
		}
		if _, err := readToEnd(sendGet(t, tr).response(t)); err == nil {
			t.Fatal("no error")
		}
		lines := regexp.MustCompile(`call=(\w+) attempt=(\d+)`).FindAllStringSubmatch(log.String(), -1)
		var got []string
		for _, m := range lines {
			got = append(got, m[2])
			if m[1] != lines[0][1] {
				t.Errorf("another call: %s", &log)
			}
		}
		if want := []string{"1", "2", "0"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// A call that is made in the context of a request for the rest is a call of its own.
func TestLogOfACallWithinARest(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		var log strings.Builder
		show := retrylog.Config{All: true, Logger: httpfake.Log(&log)}.Observer()
		signer := &transport{Base: httpfake.Statuses(200), Observe: show}
		tr := continuing(&object{breaks: []int{100, 30}})
		tr.Observe = show
		tr.Prepare = func(req *http.Request, _ int) error {
			if req.Header.Get("Range") == "bytes=130-" {
				send(signer, httpfake.Request(t, req.Context(), "GET", nil))
			}
			return nil
		}
		if _, err := readToEnd(sendGet(t, tr).response(t)); err != nil {
			t.Fatal(err)
		}
		var got, calls []string
		for _, m := range regexp.MustCompile(`call=(\w+) attempt=(\d+)`).FindAllStringSubmatch(log.String(), -1) {
			got, calls = append(got, m[2]), append(calls, m[1])
		}
		if want := []string{"1", "2", "1", "3"}; !slices.Equal(got, want) || calls[2] == calls[0] || calls[3] != calls[0] {
			t.Errorf("%q of the calls %q, want %q", got, calls, want)
		}
	})
}

// The trailers are those of the response that ends the body, even if the first
// one did not announce them.
func TestTrailersOfAResumedBody(t *testing.T) {
	for _, announced := range []edits{nil, {withTrailer}} {
		o := &object{breaks: broken100, first: announced, second: edits{func(r *http.Response) {
			r.Trailer = http.Header{"Sum": {"42"}}
		}}}
		tr := continuing(o)
		tr.Backoff = delayed(0)
		resp := sendGet(t, tr).response(t)
		if got, err := readToEnd(resp); err != nil || got != letters || resp.Trailer.Get("Sum") != "42" {
			t.Errorf("%d bytes, %v, trailers %v", len(got), err, resp.Trailer)
		}
	}
}

// An HTTP/2 stream that breaks off proves that its connection lives: a retry,
// and the rest, go over the same one.
func TestBrokenStreamsKeepTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := httpfake.Text(100_000)
		var clients []string
		server := httpfake.Serve(t, "HTTP/2", func(w http.ResponseWriter, r *http.Request) {
			if clients = append(clients, r.RemoteAddr); len(clients) == 1 { // before the header
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("ETag", `"v1"`)
			http.ServeContent(httpfake.CutAfter(w, 30_000), r, "", time.Time{}, strings.NewReader(content))
		})
		tr := continuing(server.Base)
		defer tr.CloseIdleConnections()
		send(tr, server.Request(t, "GET", nil)).wantBody(t, content)
		if !slices.Equal(clients, slices.Repeat(clients[:1], 5)) {
			t.Errorf("the connections were %q", clients)
		}
	})
}
