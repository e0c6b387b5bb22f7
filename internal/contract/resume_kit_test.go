package contract_test

import (
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

// An object is a Base that serves ranges of some content, in responses that
// break off.
type object struct {
	content string // "": letters
	breaks  []int  // bytes of each response before it breaks; a response beyond these is whole
	cause   error  // of the breaks; nil: errBroken

	each, first, second, later edits // of all responses, of the first, of the second, of all but the first
	silent                     bool  // there is no response to a request for the rest

	ranges []string         // the Range of each request
	bodies []*httpfake.Body // of each response
}

type edits []func(*http.Response)

func (e edits) apply(resp *http.Response) {
	for _, edit := range e {
		edit(resp)
	}
}

var (
	letters   = strings.Repeat("abcdefghijklmnopqrstuvwxyz", 10) // 260 bytes
	errBroken = errors.New("broken by a test")
)

func (o *object) RoundTrip(req *http.Request) (*http.Response, error) {
	n := len(o.ranges)
	asked := req.Header.Get("Range")
	o.ranges = append(o.ranges, asked)
	if o.silent && n > 0 {
		_, err := hanging(req, "").Read(make([]byte, 1))
		return nil, err
	}
	if o.content == "" {
		o.content = letters
	}
	first, last := 0, len(o.content)-1
	status := http.StatusOK
	if validator := req.Header.Get("If-Range"); asked != "" && (validator == "" || validator == `"v1"`) {
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
	resp := httpfake.Response(req, status, io.NopCloser(strings.NewReader(rest)), "ETag", `"v1"`)
	if n < len(o.breaks) && o.breaks[n] < len(rest) {
		breakingAfter(rest[:o.breaks[n]], o.cause)(resp)
	}
	resp.ContentLength = int64(len(rest))
	switch status {
	case http.StatusPartialContent:
		resp.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(o.content)))
	case http.StatusRequestedRangeNotSatisfiable:
		resp.Header.Set("Content-Range", fmt.Sprintf("bytes */%d", len(o.content)))
	}
	switch {
	case n == 0:
		o.first.apply(resp)
	case n == 1:
		o.second.apply(resp)
		fallthrough
	default:
		o.later.apply(resp)
	}
	o.each.apply(resp)
	body := httpfake.NewBody(resp.Body)
	o.bodies = append(o.bodies, body)
	resp.Body = body
	return resp, nil
}

// wantClosed fails unless every body was closed once, after its last Read.
func (o *object) wantClosed(t *testing.T) {
	t.Helper()
	synctest.Wait()
	for _, b := range o.bodies {
		if wantClosed(t, b); b.ReadsAfterClose() > 0 || b.Overlaps() > 0 {
			t.Errorf("%d Reads after Close, %d at the same time", b.ReadsAfterClose(), b.Overlaps())
		}
	}
}

func noLength(r *http.Response)    { r.ContentLength = -1 }
func withTrailer(r *http.Response) { r.Trailer = http.Header{"Sum": nil} }

func holding(content string) func(*http.Response) {
	return func(r *http.Response) { r.Body = io.NopCloser(strings.NewReader(content)) }
}

func withLength(n int64) func(*http.Response) { return func(r *http.Response) { r.ContentLength = n } }

func withStatus(status int) func(*http.Response) {
	return func(r *http.Response) { r.StatusCode = status }
}

// withHeader sets the lines of a header field.
func withHeader(name string, lines ...string) func(*http.Response) {
	return func(r *http.Response) { r.Header[http.CanonicalHeaderKey(name)] = lines }
}

// breakingAfter makes the body break off after some content.
func breakingAfter(content string, cause error) func(*http.Response) {
	if cause == nil {
		cause = errBroken
	}
	broken := httpfake.ReadFunc(func([]byte) (int, error) { return 0, cause })
	return func(r *http.Response) { r.Body = io.NopCloser(io.MultiReader(strings.NewReader(content), broken)) }
}

// whole makes a response one with a whole object of that content.
func whole(content string) func(*http.Response) {
	return func(r *http.Response) {
		r.StatusCode, r.ContentLength = http.StatusOK, int64(len(content))
		r.Header.Del("Content-Range")
		holding(content)(r)
	}
}

// part makes a response one with a part of letters, of a total that may be "*".
func part(first, last int, total string) func(*http.Response) {
	return func(r *http.Response) {
		r.ContentLength = -1
		r.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%s", first, last, total))
		holding(letters[first : last+1])(r)
	}
}

// A hangingReader has some content and then nothing, until its request ends or it is
// closed, like the bodies of net/http.
type hangingReader struct {
	io.Reader
	req    *http.Request
	closed chan struct{}
}

func hanging(req *http.Request, content string) io.ReadCloser {
	return &hangingReader{strings.NewReader(content), req, make(chan struct{})}
}

func (b *hangingReader) Read(p []byte) (int, error) {
	if n, err := b.Reader.Read(p); err == nil {
		return n, nil
	}
	select {
	case <-b.req.Context().Done():
		return 0, b.req.Context().Err()
	case <-b.closed:
		return 0, http.ErrBodyReadAfterClose
	}
}

func (b *hangingReader) Close() error { close(b.closed); return nil }

// A download reads an object through a Transport.
type download struct {
	name   string
	object object
	method string
	header http.Header
	ctx    func(context.Context) (context.Context, context.CancelFunc)
	set    func(*transport)
	want   string // body
	err    string // a part of it; "": none
	is     error
	isNot  error
	stop   awsretry.Stop
	ranges []string // of the requests after the first
	took   time.Duration
}

// continuing returns a Transport that continues the bodies of base.
func continuing(base http.RoundTripper) *transport { return &transport{Base: base, Resume: true} }

// readToEnd reads a body to its end, or to an error, and closes it.
func readToEnd(resp *http.Response) (string, error) {
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return string(got), err
}

// readBytes reads n bytes of a body.
func readBytes(t *testing.T, resp *http.Response, n int) {
	t.Helper()
	if _, err := io.ReadFull(resp.Body, make([]byte, n)); err != nil {
		t.Fatal(err)
	}
}

func (d download) run(t *testing.T) {
	tr := continuing(&d.object)
	if d.took > 0 {
		tr.Backoff = delayed(time.Second)
	}
	if d.set != nil {
		d.set(tr)
	}
	ctx := t.Context()
	if d.ctx != nil {
		var cancel context.CancelFunc
		ctx, cancel = d.ctx(ctx)
		defer cancel()
	}
	req := httpfake.Request(t, ctx, d.method, nil)
	req.Header = d.header
	start := time.Now()
	resp := send(tr, req).response(t)
	got, err := io.ReadAll(resp.Body)
	if n, again := resp.Body.Read(make([]byte, 1)); n != 0 || again == nil || err != nil && again.Error() != err.Error() {
		t.Errorf("Read after the end returned %d, %v", n, again)
	}
	resp.Body.Close()
	if string(got) != d.want {
		t.Errorf("%d bytes %q, want %d", len(got), got, len(d.want))
	}
	if (err != nil) != (d.err != "") || err != nil && !strings.Contains(err.Error(), d.err) {
		t.Errorf("the error is %v, want %q", err, d.err)
	}
	if d.is != nil && !errors.Is(err, d.is) || d.isNot != nil && errors.Is(err, d.isNot) {
		t.Errorf("%v is not %v, or is %v", err, d.is, d.isNot)
	}
	if d.stop != "" {
		wantBrokenOff(t, err, d.stop, len(d.want))
	}
	if got := d.object.ranges[1:]; fmt.Sprint(got) != fmt.Sprint(d.ranges) {
		t.Errorf("requests for %q, want %q", got, d.ranges)
	}
	if took := time.Since(start); d.took > 0 && took != d.took {
		t.Errorf("after %v, want %v", took, d.took)
	}
	d.object.wantClosed(t)
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

func runDownloads(t *testing.T, downloads []download) {
	for _, d := range downloads {
		inBubble(t, d.name, d.run)
	}
}
