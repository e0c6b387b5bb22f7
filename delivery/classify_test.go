package delivery

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"example.com/awsretry/internal/httpfake"
)

func TestStatusesThatAreRetried(t *testing.T) {
	only408 := func(status int) bool { return status == 408 || status == 200 }
	for _, tt := range []struct {
		retryStatus       func(int) bool
		retried, returned []int
	}{
		{nil, []int{429, 500, 501, 503, 505, 511, 599}, []int{200, 299, 300, 302, 400, 408, 428, 430, 499, 600, 999}},
		{only408, []int{408}, []int{200, 429, 503}},
	} {
		for _, status := range append(tt.retried, tt.returned...) {
			run(t, strconv.Itoa(status), func(t *testing.T) {
				end := responding(status, 200)
				send(t, &Transport{Base: end, RetryStatus: tt.retryStatus}, post(t, "http://a.example/", "x"))
				if retried := len(end.asked) > 1; retried != slices.Contains(tt.retried, status) {
					t.Errorf("retried is %v", retried)
				}
			})
			if status < 400 || status >= 600 {
				continue
			}
			run(t, "of a proxy/"+strconv.Itoa(status), func(t *testing.T) {
				attempts := 0
				tr := &Transport{RetryStatus: tt.retryStatus, Base: httpfake.Base(func(*http.Request) (*http.Response, error) {
					attempts++
					text := cmp.Or(http.StatusText(status), "status code "+strconv.Itoa(status))
					return nil, errors.New(text) // as net/http does
				})}
				_, err := tr.RoundTrip(post(t, "http://a.example/", "x"))
				if retried := attempts > 1; retried != slices.Contains(tt.retried, status) {
					t.Errorf("retried is %v: %v", retried, err)
				}
			})
		}
	}
}

func TestErrorsThatAreRetried(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"EOF", io.ErrUnexpectedEOF, true}, // as awsretry's own policy
		{"no connection", errRefused, true},
		{"no such name", &net.DNSError{IsNotFound: true}, true},
		{"certificate", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, true},
		{"no TLS", tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, true},
		{"alert", tls.AlertError(40), true},
		{"ECH", &tls.ECHRejectionError{}, true},
		{"TLS version",
			fmt.Errorf("handshake: %w", errors.New("tls: server selected unsupported protocol version 301")),
			true},
		{"HTTP on the port for HTTPS", http.ErrSchemeMismatch, true},
		{"unsupported scheme", errors.New("unsupported protocol scheme \"gopher\""), false},
	} {
		run(t, tt.name, func(t *testing.T) {
			attempts := 0
			tr := &Transport{Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
				attempts++
				receive(req)
				return nil, tt.err
			})}
			_, err := tr.RoundTrip(post(t, "http://a.example/", "x"))
			if retried := attempts > 1; retried != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("retried is %v, want %v; got %v", retried, tt.want, err)
			}
		})
	}
}

// An http.Client does not make a delivery of a redirect, whether or not its
// CheckRedirect is set.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{302, 307} {
		for name, checks := range map[string]bool{"by default": false, "with CheckRedirect": true} {
			run(t, fmt.Sprintf("%d/%s", status, name), func(t *testing.T) {
				end, deadLetters := responding(status), 0
				end.header = http.Header{"Location": {"/new"}}
				client := &http.Client{Transport: &Transport{
					Base:       end,
					DeadLetter: func(context.Context, DeadLetter) error { deadLetters++; return nil },
				}}
				if checks {
					client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
				}
				resp, err := client.Post("http://a.example/old", "text/plain", strings.NewReader("hello"))
				switch {
				case !checks:
					if !errors.Is(err, ErrRedirect) || !strings.Contains(err.Error(), fmt.Sprint(status)) ||
						strings.Count(err.Error(), "delivery: ") != 1 {
						t.Errorf("got %v", err)
					}
				case err != nil:
					t.Fatal(err)
				default:
					if resp.Body.Close(); resp.StatusCode != status {
						t.Errorf("got %d", resp.StatusCode)
					}
				}
				if len(end.asked) != 1 || deadLetters != 1 {
					t.Errorf("%d requests and %d dead letters; want one each", len(end.asked), deadLetters)
				}
			})
		}
	}
}
