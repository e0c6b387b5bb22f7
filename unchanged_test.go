package awsretry_test

import (
	"net/http"
	"reflect"
	"testing"
	"time"

	"example.com/awsretry"
	"github.com/google/go-cmp/cmp"
)

// TestCallersRequestIsNotChanged compares all of a request with a copy.
func TestCallersRequestIsNotChanged(t *testing.T) {
	for kind, newBody := range bodyKinds {
		sent := newBody(t, "the body")
		req := request(t, t.Context(), "PUT", nil)
		req.Body, req.GetBody = sent.reader, sent.getBody
		req.Header = http.Header{"X-Own": {"1", "2"}, "Amz-Sdk-Request": {"attempt=1; max=1"}}
		req.Trailer = http.Header{"X-Sum": nil}
		req.TransferEncoding = []string{"chunked"}
		req.Cancel = make(chan struct{}) //lint:ignore SA1019 http.Client.Timeout sets it
		before, deep := *req, req.Clone(t.Context())
		tr := &awsretry.Transport{SDKHeaders: true, AttemptTimeout: time.Hour, Backoff: pauseOf(0),
			Prepare: func(out *http.Request, n int) error {
				out.Header.Set("X-Own", "changed")
				out.Header.Set("Date", "now")
				out.URL.Host, out.URL.RawQuery, out.Host, out.Method = "elsewhere", "", "elsewhere", "GET"
				return nil
			},
			Base: baseFunc(func(out *http.Request) (*http.Response, error) {
				if out == req || out.URL == req.URL {
					t.Errorf("%s: Base gets what is the caller's", kind)
				}
				//lint:ignore SA1019 http.Client.Timeout sets it
				if out.Cancel != req.Cancel {
					t.Errorf("%s: Base gets another Cancel", kind)
				}
				if out.Header.Get("X-Own") != "changed" || out.Trailer == nil {
					t.Errorf("%s: Base gets %+v", kind, out)
				}
				useUp(out)
				return respond(out, 503, http.NoBody), nil
			})}
		if _, err := tr.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		shallow := reflect.ValueOf(before)
		for i := range shallow.NumField() {
			was, is := shallow.Field(i), reflect.ValueOf(req).Elem().Field(i)
			switch was.Kind() {
			case reflect.Func, reflect.Map, reflect.Pointer, reflect.Chan:
				if was.Pointer() != is.Pointer() {
					t.Errorf("%s: %s is another one", kind, shallow.Type().Field(i).Name)
				}
			}
		}
		if req.Body != before.Body || req.Method != deep.Method || req.Host != deep.Host || req.ContentLength != deep.ContentLength ||
			req.Context() != before.Context() {
			t.Errorf("%s: the request is changed: %+v", kind, req)
		}
		if d := cmp.Diff([]any{deep.URL, deep.Header, deep.Trailer, deep.TransferEncoding}, []any{req.URL, req.Header, req.Trailer, req.TransferEncoding}); d != "" {
			t.Errorf("%s: the request is changed: %s", kind, d)
		}
	}
}
