package interop

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// A proxy refuses CONNECT: for now, which is worth a retry, or for good.
func TestConnectRefusals(t *testing.T) {
	for _, tt := range []struct {
		status int
		sent   int32
		ok     bool
	}{{503, 3, true}, {502, 3, true}, {429, 3, true}, {407, 1, false}, {403, 1, false}} {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			var asked atomic.Int32
			srv := serveBehindTunnel(t, echo, func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) < 3 {
					w.WriteHeader(tt.status)
					return
				}
				tunnel(w, r)
			})
			resp, err := retrying(srv.Base).RoundTrip(srv.Request(t, http.MethodPost, strings.NewReader("through")))
			if err == nil {
				if body := httpfake.ReadAll(t, resp); body != "through" {
					t.Errorf("%q came back", body)
				}
			}
			if (err == nil) != tt.ok || asked.Load() != tt.sent {
				t.Errorf("%v after %d CONNECTs, want %d", err, asked.Load(), tt.sent)
			}
		})
	}
}

// A request to a server whose certificate is not trusted is sent once.
func TestUntrustedCertificate(t *testing.T) {
	srv := httpfake.ServeTCP(t, "HTTP/1.1 over TLS", echo)
	attempts := 0
	tr := retrying(newPool(t))
	tr.Observe = func(awsretry.Attempt) { attempts++ }
	_, err := tr.RoundTrip(srv.Request(t, http.MethodGet, nil))
	var failure *awsretry.Error
	if !errors.As(err, &failure) || failure.Stop != awsretry.StopPermanent || attempts != 1 {
		t.Errorf("%v after %d attempts", err, attempts)
	}
}
