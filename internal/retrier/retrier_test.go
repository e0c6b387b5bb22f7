package retrier

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// marked is a RoundTripper that retries.
type marked struct{ Mark }

func (*marked) RoundTrip(*http.Request) (*http.Response, error) { return nil, nil }

// plain is a RoundTripper that sends.
type plain struct{}

func (plain) RoundTrip(*http.Request) (*http.Response, error) { return nil, nil }

// wrapper is middleware that shows what it wraps.
type wrapper struct{ Base http.RoundTripper }

func (wrapper) RoundTrip(*http.Request) (*http.Response, error) { return nil, nil }

// twoWays is middleware that sends requests of its own too.
type twoWays struct{ Tokens, Base http.RoundTripper }

func (twoWays) RoundTrip(*http.Request) (*http.Response, error) { return nil, nil }

// unnamed is middleware that does not show which field it sends through.
type unnamed struct{ First, Second http.RoundTripper }

func (unnamed) RoundTrip(*http.Request) (*http.Response, error) { return nil, nil }

// hidden is middleware that does not show what it wraps.
type hidden struct{ base http.RoundTripper }

func (hidden) RoundTrip(*http.Request) (*http.Response, error) { return nil, nil }

// reporter has a field that is not a RoundTripper by its type.
type reporter struct {
	Out    plain
	Report any
}

func (reporter) RoundTrip(*http.Request) (*http.Response, error) { return nil, nil }

type function func(*http.Request) (*http.Response, error)

func (function) RoundTrip(*http.Request) (*http.Response, error) { return nil, nil }

func TestCheckBase(t *testing.T) {
	const another = "Base is, or sends through, another awsretry.Transport or a delivery.Transport"
	cycle := &wrapper{}
	cycle.Base = cycle
	for _, tt := range []struct {
		name string
		base http.RoundTripper
		want string // the beginning of the error; "": none
	}{
		{"nil", nil, ""},
		{"net/http's", http.DefaultTransport, ""},
		{"a function", function(nil), "Base is a nil retrier.function"},
		{"a nil pointer", (*http.Transport)(nil), "Base is a nil *http.Transport"},
		{"one that retries", &marked{}, another},
		{"around one that retries", &wrapper{&marked{}}, another},
		{"around two", wrapper{&wrapper{&marked{}}}, another},
		{"embedding one that retries", struct{ http.RoundTripper }{&marked{}}, another},
		{"around nothing", &wrapper{}, ""},
		{"around a nil pointer", &wrapper{(*wrapper)(nil)}, ""},
		{"around itself", cycle, ""},
		{"Base of two fields", twoWays{Base: &marked{}}, another},
		{"not Base of two fields", twoWays{Base: plain{}, Tokens: &marked{}}, ""},
		{"one of two fields with other names", unnamed{First: &marked{}}, ""},
		{"an unexported field", hidden{&marked{}}, ""},
		{"a field of another type", reporter{Report: &marked{}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckBase("Base", tt.base)
			if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestIsNil(t *testing.T) {
	for _, tt := range []struct {
		name string
		v    any
		want bool
	}{
		{"nothing", nil, false},
		{"a nil pointer", (*int)(nil), true},
		{"a pointer", new(int), false},
		{"a nil function", (func())(nil), true},
		{"a function", func() {}, false},
		{"a nil map", map[int]int(nil), true},
		{"a struct", plain{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := IsNil(tt.v); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestWaiting(t *testing.T) {
	type key struct{}
	ctx, waiting := t.Context(), context.WithValue(t.Context(), key{}, "waiting")
	if got := Waiting(ctx); got != ctx {
		t.Error("a context without another one for waits is not its own")
	}
	if got := Waiting(context.WithValue(WithWaiting(ctx, waiting), key{}, "inner")); got.Value(key{}) != "waiting" {
		t.Errorf("the context for waits is %v", got)
	}
}
