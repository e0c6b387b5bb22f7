package contract_test

import (
	"net/http"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
	"github.com/google/go-cmp/cmp"
)

// SDKHeaders number the attempts and name the call.
func TestSDKHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts, ids []string
		tr := &transport{SDKHeaders: true, Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			attempts = append(attempts, req.Header.Get("amz-sdk-request"))
			ids = append(ids, req.Header.Get("amz-sdk-invocation-id"))
			return httpfake.Response(req, 503, http.NoBody), nil
		})}
		for range 2 {
			req := httpfake.Request(t, t.Context(), "GET", nil)
			if send(tr, req).wantBody(t, ""); len(req.Header) != 0 {
				t.Errorf("the caller's header was changed: %v", req.Header)
			}
		}
		one := []string{"attempt=1; max=3", "attempt=2; max=3", "attempt=3; max=3"}
		if !slices.Equal(attempts, append(one, one...)) {
			t.Errorf("sent %q", attempts)
		}
		if ids[0] != ids[1] || ids[0] == ids[3] || len(ids[0]) != 36 {
			t.Errorf("invocation ids %q", ids)
		}
	})
}

// A header that an AWS signature covers is not changed, unless Prepare signs
// the request again.
func TestSDKHeadersLeaveASignatureAlone(t *testing.T) {
	const signed = "AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/dynamodb/aws4_request, " +
		"SignedHeaders=amz-sdk-invocation-id;amz-sdk-request;host, Signature=0"
	for _, tt := range []struct {
		name, authorization, query string
		prepare                    func(*http.Request, int) error
		want                       string
	}{
		{"signed", signed, "", nil, "attempt=1; max=1"},
		{"signed in the query", "", "X-Amz-SignedHeaders=amz-sdk-request%3Bhost", nil, "attempt=1; max=1"},
		{"signed again", signed, "", func(*http.Request, int) error { return nil }, "attempt=1; max=3"},
		{"not signed", "Bearer x", "", nil, "attempt=1; max=3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			tr := retrying(func(req *http.Request) (*http.Response, error) {
				got = req.Header.Get("Amz-Sdk-Request")
				return httpfake.Response(req, 200, http.NoBody), nil
			})
			tr.SDKHeaders, tr.Prepare = true, tt.prepare
			req := httpfake.Request(t, t.Context(), "POST", nil)
			req.Header = http.Header{"Amz-Sdk-Request": {"attempt=1; max=1"}, "Authorization": {tt.authorization}}
			req.URL.RawQuery = tt.query
			if send(tr, req).wantBody(t, ""); got != tt.want {
				t.Errorf("sent %q, want %q", got, tt.want)
			}
		})
	}
}

// Whatever hooks and Base do with their requests, the caller's stays as it was.
func TestCallersRequestIsNotChanged(t *testing.T) {
	for kind, newBody := range bodyKinds {
		t.Run(kind, func(t *testing.T) {
			req := httpfake.Request(t, t.Context(), "PUT", nil)
			newBody(t, "the body").attachTo(req)
			req.Header = http.Header{"X-Own": {"1", "2"}, "Amz-Sdk-Request": {"attempt=1; max=1"}}
			req.Trailer = http.Header{"X-Sum": nil}
			req.TransferEncoding = []string{"chunked"}
			req.Cancel = make(chan struct{})
			before, deep := *req, req.Clone(t.Context())
			tr := retrying(func(out *http.Request) (*http.Response, error) {
				if out == req || out.URL == req.URL || out.Cancel != req.Cancel {
					t.Error("Base gets what is the caller's, or another Cancel")
				}
				if out.Header.Get("X-Own") != "changed" || out.Trailer == nil {
					t.Errorf("Base gets %+v", out)
				}
				httpfake.Receive(out)
				return httpfake.Response(out, 503, http.NoBody), nil
			})
			tr.SDKHeaders, tr.AttemptTimeout = true, time.Hour
			tr.Prepare = func(out *http.Request, n int) error {
				out.Header.Set("X-Own", "changed")
				out.Header.Set("Date", "now")
				out.URL.Host, out.URL.RawQuery, out.Host, out.Method = "elsewhere", "", "elsewhere", "GET"
				return nil
			}
			send(tr, req).wantBody(t, "")
			wantSame(t, before, req)
			content := func(r *http.Request) []any {
				return []any{r.Method, r.URL, r.Header, r.Trailer, r.TransferEncoding, r.Host, r.ContentLength}
			}
			if d := cmp.Diff(content(deep), content(req)); d != "" {
				t.Errorf("the request is changed: %s", d)
			}
		})
	}
}

// wantSame fails unless the fields of req that refer to something still refer
// to the same.
func wantSame(t *testing.T, before http.Request, req *http.Request) {
	t.Helper()
	was, is := reflect.ValueOf(before), reflect.ValueOf(req).Elem()
	for i := range was.NumField() {
		switch was.Field(i).Kind() {
		case reflect.Func, reflect.Map, reflect.Pointer, reflect.Chan:
			if was.Field(i).Pointer() != is.Field(i).Pointer() {
				t.Errorf("%s is another one", was.Type().Field(i).Name)
			}
		}
	}
	if req.Body != before.Body || req.Context() != before.Context() {
		t.Error("the body or the context is another one")
	}
}
