package contract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// An object is served in ranges. Its responses break off.
type object struct {
	content string
	etag    string
	breaks  []int                            // the bytes of each response until it breaks; one beyond these is whole
	change  func(n int, resp *http.Response) // of the n-th response, from 0

	compress func(string) string // on the fly, each response by itself; nil: none
	plain    bool                // a part has the length of what is not compressed

	ranges []string // that were asked for
	bodies []*httpfake.Body
}

var (
	errBroken = errors.New("connection reset by peer")
	errNoKey  = errors.New("no key")
)

// A brokenBody ends with an error.
type brokenBody struct {
	io.Reader
	err error
}

func (b *brokenBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF && b.err != nil {
		err = b.err
	}
	return n, err
}

func (o *object) RoundTrip(req *http.Request) (*http.Response, error) {
	n := len(o.ranges)
	asked := req.Header.Get("Range")
	o.ranges = append(o.ranges, asked)
	first, last := 0, len(o.content)-1
	status := http.StatusOK
	if asked != "" && (req.Header.Get("If-Range") == "" || req.Header.Get("If-Range") == o.etag) {
		from, to, _ := strings.Cut(strings.TrimPrefix(asked, "bytes="), "-")
		fmt.Sscan(from, &first)
		if fmt.Sscan(to, &last); from == "" {
			first, last = max(len(o.content)-last, 0), len(o.content)
		}
		last = min(last, len(o.content)-1)
		status = http.StatusPartialContent
		if first > last {
			first, last, status = 0, -1, http.StatusRequestedRangeNotSatisfiable
		}
	}
	rest := o.content[first : last+1]
	length := int64(len(rest))
	if o.compress != nil && rest != "" {
		if rest = o.compress(rest); !o.plain || status == http.StatusOK {
			length = -1
		} else {
			rest = rest[:min(len(rest), int(length))]
		}
	}
	body := &brokenBody{Reader: strings.NewReader(rest)}
	if n < len(o.breaks) && o.breaks[n] < len(rest) {
		body.Reader, body.err = strings.NewReader(rest[:o.breaks[n]]), errBroken
	}
	resp := httpfake.Response(req, status, io.NopCloser(body), "ETag", o.etag)
	resp.ContentLength = length
	if o.compress != nil {
		resp.Header.Set("Content-Encoding", "gzip")
	}
	if status == http.StatusPartialContent {
		resp.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(o.content)))
	}
	if status == http.StatusRequestedRangeNotSatisfiable {
		resp.Header.Set("Content-Range", fmt.Sprintf("bytes */%d", len(o.content)))
	}
	if o.change != nil {
		o.change(n, resp)
	}
	counted := httpfake.NewBody(resp.Body)
	o.bodies = append(o.bodies, counted)
	resp.Body = counted
	return resp, nil
}

// wantClosed fails unless every body was closed once, after its last Read.
func (o *object) wantClosed(t *testing.T) {
	t.Helper()
	synctest.Wait()
	for n, b := range o.bodies {
		if b.Closes() != 1 || b.ReadsAfterClose() > 0 || b.ClosesDuringRead() > 0 || b.Overlaps() > 0 {
			t.Errorf("body %d was closed %d times, %d times during a Read; %d reads after that, %d at the same time",
				n, b.Closes(), b.ClosesDuringRead(), b.ReadsAfterClose(), b.Overlaps())
		}
	}
}

// ofEach returns a change of every response, and ofRest of the first response
// to a request for the rest.
func ofEach(change func(*http.Response)) func(int, *http.Response) {
	return func(_ int, resp *http.Response) { change(resp) }
}

func ofRest(change func(*http.Response)) func(int, *http.Response) {
	return func(n int, resp *http.Response) {
		if n == 1 {
			change(resp)
		}
	}
}

// holding changes the body.
func holding(content string) func(*http.Response) {
	return func(resp *http.Response) { resp.Body = io.NopCloser(strings.NewReader(content)) }
}

func withStatus(status int) func(*http.Response) {
	return func(resp *http.Response) { resp.StatusCode = status }
}

func withHeader(name, value string) func(*http.Response) {
	return func(resp *http.Response) { resp.Header.Set(name, value) }
}

// twice adds a line of a header.
func twice(name, value string) func(*http.Response) {
	return func(resp *http.Response) { resp.Header.Add(name, value) }
}

var letters = strings.Repeat("abcdefghijklmnopqrstuvwxyz", 10) // 260 bytes

// A resumeCase is a download of letters.
type resumeCase struct {
	name   string
	object object
	method string
	header http.Header
	ctx    func(context.Context) context.Context
	set    func(*awsretry.Transport)
	want   string // body
	err    string // a part of it; "": none
	is     error
	stop   awsretry.Stop
	ranges []string // of the requests after the first
}

func (tt resumeCase) run(t *testing.T) {
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
	req := httpfake.Request(t, ctx, tt.method, nil)
	for name, values := range tt.header {
		req.Header[name] = values
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	if n, again := resp.Body.Read(make([]byte, 1)); n != 0 || again == nil {
		t.Errorf("Read after the end returned %d, %v", n, again)
	}
	resp.Body.Close()
	if string(got) != tt.want {
		t.Errorf("%d bytes %q, want %d", len(got), got, len(tt.want))
	}
	if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
		t.Errorf("the error is %v, want %q", err, tt.err)
	}
	if tt.is != nil && !errors.Is(err, tt.is) {
		t.Errorf("%v is not %v", err, tt.is)
	}
	if tt.stop != "" {
		wantBrokenOff(t, err, tt.stop, len(tt.want))
	}
	if got := o.ranges[1:]; fmt.Sprint(got) != fmt.Sprint(tt.ranges) {
		t.Errorf("requests for %q, want %q", got, tt.ranges)
	}
	o.wantClosed(t)
}

// wantBrokenOff fails unless err is an *Error that says how many bytes were
// read.
func wantBrokenOff(t *testing.T, err error, stop awsretry.Stop, bytes int) {
	t.Helper()
	failed := new(awsretry.Error)
	if !errors.As(err, &failed) || failed.Stop != stop || failed.Attempts == 0 ||
		!strings.Contains(err.Error(), fmt.Sprintf("the response body broke off after %d bytes: ", bytes)) {
		t.Errorf("the error is %v, want one with the stop %q and %d bytes", err, stop, bytes)
	}
}

func runResumeCases(t *testing.T, tests []resumeCase) {
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { synctest.Test(t, tt.run) })
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
