package retrier

import (
	"net/http"
	"strings"
	"testing"
)

type plain struct{}

func (plain) RoundTrip(*http.Request) (*http.Response, error) { return nil, nil }

type retrying struct {
	plain
	retries bool
}

func (r retrying) Retries(Seal) bool { return r.retries }

type function func(*http.Request) (*http.Response, error)

func (function) RoundTrip(*http.Request) (*http.Response, error) { return nil, nil }

type table map[string]*http.Response

func (table) RoundTrip(*http.Request) (*http.Response, error) { return nil, nil }

func TestCheckBase(t *testing.T) {
	for _, tt := range []struct {
		name string
		base http.RoundTripper
		want string // the beginning of the error; "": none
	}{
		{"nil", nil, ""},
		{"net/http's", http.DefaultTransport, ""},
		{"a function", function(nil), "Base is a nil retrier.function"},
		{"a nil map", table(nil), "Base is a nil retrier.table"},
		{"a nil pointer", (*retrying)(nil), "Base is a nil *retrier.retrying"},
		{"one that retries", retrying{retries: true}, "Base is, or sends through, another awsretry.Transport"},
		{"one that may retry and does not", &retrying{}, ""},
		{"embedding one that retries", struct{ retrying }{retrying{retries: true}}, "Base is, or sends through, another"},
	} {
		err := CheckBase("Base", tt.base)
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}
