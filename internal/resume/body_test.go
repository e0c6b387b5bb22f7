package resume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"example.com/awsretry/internal/byterange"
)

// A source responds to requests for the rest, and records what happens.
type source struct {
	rest     func(ctx context.Context) (*http.Response, error)
	progress *byterange.Progress
	events   []string
}

func (s *source) Rest(ctx context.Context, cause error) (*http.Response, error) {
	s.events = append(s.events, "rest after "+cause.Error())
	from := s.progress.Ask(make(http.Header))
	resp, err := s.rest(ctx)
	if err != nil {
		return nil, err
	}
	return resp, s.progress.Continue(resp, from)
}

func (s *source) Received(n int)               { s.events = append(s.events, fmt.Sprint(n)) }
func (s *source) Settle(ok bool)               { s.events = append(s.events, fmt.Sprint("settle ", ok)) }
func (s *source) Fail(err error, _ bool) error { return fmt.Errorf("failed: %w", err) }
func (s *source) BrokenOff(err error) error    { return err }

// A text is a response body that ends too early, unless it is whole.
type text struct{ io.Reader }

func (t *text) Close() error { return nil }

func respond(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{"Etag": {`"1"`}}, ContentLength: 6, Body: &text{strings.NewReader(body)},
	}
}

func rest(body string) *http.Response {
	resp := respond(206, body)
	resp.Header.Set("Content-Range", "bytes 3-5/6")
	resp.ContentLength = 3
	return resp
}

// begin returns a body of six bytes, of which the first response has abc.
func begin(t *testing.T, rest func(context.Context) (*http.Response, error)) (*Body, *source) {
	t.Helper()
	req, err := http.NewRequest("GET", "http://service.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp := respond(200, "abc")
	progress, why := byterange.Begin(req, resp)
	if why != "" {
		t.Fatal(why)
	}
	b, s := new(Body), &source{rest: rest}
	s.progress = b.Begin(t.Context(), resp, progress, s)
	return b, s
}

// A body breaks off after three bytes: what Read returns, and which calls the source
// gets.
func TestBody(t *testing.T) {
	gone := errors.New("gone")
	broke := []string{"3", "settle false", "rest after unexpected EOF"}
	for _, test := range []struct {
		name   string
		rest   func(context.Context) (*http.Response, error)
		want   string
		err    error // that the error wraps
		fails  bool
		events []string // after those of broke
	}{
		{"the rest", func(context.Context) (*http.Response, error) { return rest("def"), nil },
			"abcdef", nil, false, []string{"3", "settle true"}},
		{"a rest that is too long", func(context.Context) (*http.Response, error) { return rest("defg"), nil },
			"abcdef", nil, true, []string{"3", "settle false"}},
		{"no rest", func(context.Context) (*http.Response, error) { return nil, io.EOF },
			"abc", nil, false, []string{"settle true"}},
		{"an error", func(context.Context) (*http.Response, error) { return nil, gone },
			"abc", gone, true, []string{"settle false"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, s := begin(t, test.rest)
			got, err := io.ReadAll(b)
			if string(got) != test.want || (err != nil) != test.fails || test.err != nil && !errors.Is(err, test.err) {
				t.Errorf("%q, %v; want %q, %v", got, err, test.want, test.err)
			}
			if want := append(slices.Clone(broke), test.events...); !slices.Equal(s.events, want) {
				t.Errorf("%q; want %q", s.events, want)
			}
			if n, again := b.Read(make([]byte, 1)); n > 0 || again == nil || err != nil && again != err {
				t.Errorf("a later Read returned %d, %v", n, again)
			}
		})
	}
}

// Close during a request for the rest ends its context, and Read says that the body
// is closed. So does a Read after a panic.
func TestClose(t *testing.T) {
	var b *Body
	b, s := begin(t, func(ctx context.Context) (*http.Response, error) {
		b.Close()
		return nil, context.Cause(ctx)
	})
	got, err := io.ReadAll(b)
	if string(got) != "abc" || err != http.ErrBodyReadAfterClose || s.events[len(s.events)-1] != "settle true" {
		t.Errorf("%q, %v, %q", got, err, s.events)
	}
	b, _ = begin(t, func(context.Context) (*http.Response, error) { panic("hook") })
	func() {
		defer func() { _ = recover() }()
		_, _ = io.ReadAll(b)
	}()
	if _, err := b.Read(make([]byte, 1)); err != http.ErrBodyReadAfterClose {
		t.Errorf("a Read after a panic returned %v", err)
	}
}
