package contract

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// download reads an object of 26 letters through a Transport.
func download(t *testing.T, tr *awsretry.Transport) (string, error) {
	t.Helper()
	resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "GET", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

const alphabet = "abcdefghijklmnopqrstuvwxyz"

// What would be the failure of a TLS handshake before the headers is a break of
// the body after them, such as a record that was damaged on the way.
func TestResumeAfterTLSErrors(t *testing.T) {
	for _, broken := range []error{
		&net.OpError{Op: "local error", Err: tls.AlertError(20)},
		&net.OpError{Op: "remote error", Err: tls.AlertError(80)},
		tls.RecordHeaderError{Msg: "not a TLS record"},
	} {
		t.Run(broken.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &object{content: alphabet, etag: `"v1"`, breaks: []int{5}, change: func(n int, resp *http.Response) {
					if n == 0 {
						resp.Body = io.NopCloser(&brokenBody{strings.NewReader(alphabet[:5]), broken})
					}
				}}
				if got, err := download(t, &awsretry.Transport{Base: o, Resume: true}); got != alphabet || err != nil {
					t.Errorf("%q, %v", got, err)
				}
			})
		})
	}
}

// A body of unknown length of which only the end was lost is complete if the
// service says that there is no rest.
func TestResumeAtTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name    string
		header  []string
		status  int
		wantErr bool
	}{
		{"no rest", []string{"Content-Range", "bytes */26", "ETag", `"v1"`}, 416, false},
		{"no rest of an unknown version", []string{"Content-Range", "bytes */26"}, 416, true},
		{"another length", []string{"Content-Range", "bytes */27", "ETag", `"v1"`}, 416, true},
		{"another version", []string{"Content-Range", "bytes */26", "ETag", `"v2"`}, 416, true},
		{"no length", nil, 416, true},
		{"another status", []string{"Content-Range", "bytes */26"}, 412, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &object{content: alphabet, etag: `"v1"`, change: func(n int, resp *http.Response) {
					if n == 0 {
						resp.ContentLength = -1
						resp.Body = io.NopCloser(&brokenBody{strings.NewReader(alphabet), errBroken})
						return
					}
					*resp = *httpfake.Response(resp.Request, tt.status, http.NoBody, tt.header...)
				}}
				got, err := download(t, &awsretry.Transport{Base: o, Resume: true})
				if got != alphabet || (err != nil) != tt.wantErr {
					t.Errorf("%q, %v", got, err)
				}
				o.wantClosed(t)
			})
		})
	}
}

// A break that no attempt follows is reported once, with the reason. One that
// is continued is not.
func TestResumeReportsWhatIsGivenUp(t *testing.T) {
	for _, tt := range []struct {
		quota awsretry.QuotaConfig
		want  string
	}{
		{awsretry.QuotaConfig{}, "1 success success 0, 2 success success 5"},
		{awsretry.QuotaConfig{Capacity: 1}, "1 success success 0, 1 transient quota 5"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got []string
			var log strings.Builder
			logTo := awsretry.LogTo(slog.New(slog.NewTextHandler(&log, nil)))
			o := &object{content: alphabet, etag: `"v1"`, breaks: []int{5}}
			_, err := download(t, &awsretry.Transport{
				Base: o, Resume: true, Quota: tt.quota,
				Observe: func(a awsretry.Attempt) {
					got = append(got, fmt.Sprintf("%d %v %s %d", a.Number, a.Class, a.Stop, a.Offset))
					logTo(a)
				},
			})
			if all := strings.Join(got, ", "); all != tt.want {
				t.Errorf("observed %s, want %s", all, tt.want)
			}
			if err == nil {
				return
			}
			if !errors.Is(err, awsretry.ErrQuotaExceeded) || !strings.Contains(log.String(), "offset=5") {
				t.Errorf("%v; logged %s", err, log.String())
			}
		})
	}
}
