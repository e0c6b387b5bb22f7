package interop

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"github.com/aws/aws-sdk-go-v2/aws"
)

// Signed requests are throttled for longer than their signatures are valid.
// Prepare signs each attempt.
func TestSigV4(t *testing.T) {
	payload := []byte(strings.Repeat("signed ", 1000))
	type call func(t *testing.T, addr string, rt http.RoundTripper, clock *sigClock) error
	// plain returns a call whose first signature has an age.
	plain := func(age time.Duration) call {
		return func(t *testing.T, addr string, rt http.RoundTripper, clock *sigClock) error {
			url := "http://" + addr + "/a/path%20b?x=1&y=%2F"
			req := newRequest(t, t.Context(), http.MethodPut, url, bytes.NewReader(payload))
			if err := sign(&sigClock{now: clock.time().Add(-age)}, "execute-api")(req, 1); err != nil {
				t.Fatal(err)
			}
			resp, err := rt.RoundTrip(req)
			if err == nil {
				defer resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					err = fmt.Errorf("status %d", resp.StatusCode)
				}
			}
			return err
		}
	}
	s3 := func(t *testing.T, addr string, rt http.RoundTripper, _ *sigClock) error {
		return s3Put(t.Context(), newS3(addr, rt, aws.NopRetryer{}), "a key/with spaces", payload)
	}
	dynamodb := func(t *testing.T, addr string, rt http.RoundTripper, _ *sigClock) error {
		return ddbPut(t.Context(), newDynamoDB(addr, rt, aws.NopRetryer{}), 7)
	}
	const slow, skewed, accepted = "SlowDown", "RequestTimeTooSkewed", "accepted"
	for _, tt := range []struct {
		name, service string
		do            call
		throttles     int
		prepare       bool
		sdkHeaders    bool
		want          []string
	}{
		{"net/http", "execute-api", plain(0), 2, true, false, []string{slow, slow, accepted}},
		{"net/http, too old at first", "execute-api", plain(time.Hour), 0, true, false, []string{accepted}},
		{"net/http, with SDKHeaders", "execute-api", plain(0), 2, true, true, []string{slow, slow, accepted}},
		{"net/http, without Prepare", "execute-api", plain(0), 2, false, false, []string{slow, skewed}},
		{"net/http, too old, without Prepare", "execute-api", plain(time.Hour), 0, false, false, []string{skewed}},
		{"S3", "s3", s3, 2, true, false, []string{slow, slow, accepted}},
		{"S3, without Prepare", "s3", s3, 2, false, false, []string{slow, skewed}},
		{"DynamoDB", "dynamodb", dynamodb, 1, true, false, []string{slow, accepted}},
		{"DynamoDB, with SDKHeaders", "dynamodb", dynamodb, 1, true, true, []string{slow, accepted}},
		{"DynamoDB, without Prepare", "dynamodb", dynamodb, 1, false, false, []string{slow, skewed}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clock := &sigClock{now: time.Now().UTC()}
			service := &sigService{t: t, clock: clock, service: tt.service, throttles: tt.throttles}
			srv := httpfake.Serve(t, "HTTP/1.1", service.serve)
			tr := retrying(srv.Base)
			tr.SDKHeaders = tt.sdkHeaders
			if tt.prepare {
				tr.Prepare = sign(clock, tt.service)
			}
			err := tt.do(t, hostOf(t, srv.URL), tr, clock)
			if (err == nil) != (tt.want[len(tt.want)-1] == accepted) {
				t.Errorf("the error is %v", err)
			}
			if !slices.Equal(service.responses, tt.want) {
				t.Errorf("the service responded %q, want %q", service.responses, tt.want)
			}
			if err == nil && tt.service != "dynamodb" && !bytes.Equal(service.stored, payload) {
				t.Errorf("%d bytes arrived, which differ from the %d that were sent", len(service.stored), len(payload))
			}
		})
	}
}

// SDKHeaders changes no header that the client has signed.
func TestSigV4SDKHeaders(t *testing.T) {
	service := &sigService{t: t, clock: &sigClock{now: time.Now().UTC()}, service: "dynamodb"}
	srv := httpfake.Serve(t, "HTTP/1.1", service.serve)
	tr := &awsretry.Transport{Base: srv.Base, SDKHeaders: true}
	if err := ddbPut(t.Context(), newDynamoDB(hostOf(t, srv.URL), tr, aws.NopRetryer{}), 7); err != nil {
		t.Errorf("%v: the service responded %q", err, service.responses)
	}
}
