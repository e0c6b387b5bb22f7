package awsretry_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// simpleDBBackoff has the delays of Amazon SimpleDB, "API error retries":
// random, up to 4^n * 100 ms, with n from 1.
var simpleDBBackoff = awsretry.Exponential{Initial: 400 * time.Millisecond, Factor: 4}

// Amazon SimpleDB recommends longer delays than those of the AWS SDKs. The
// default policy knows its errors, REST and SOAP.
func ExampleExponential_simpleDB() {
	longest := simpleDBBackoff
	longest.Jitter = awsretry.NoJitter
	for n := range 3 {
		fmt.Println(longest.Delay(n, awsretry.Transient, 0))
	}

	unavailable, err := os.ReadFile("testdata/simpledb/rest_503_unavailable.xml")
	if err != nil {
		fmt.Println(err)
		return
	}
	server := startServer(status(503, string(unavailable)), status(200, "ok"))
	defer server.Close()
	client := &http.Client{Transport: &awsretry.Transport{Backoff: simpleDBBackoff, MaxAttempts: 4}}
	resp, err := client.Get(server.URL + "/?Action=ListDomains")
	printStatus(resp, err)
	// Output:
	// 400ms
	// 1.6s
	// 6.4s
	// 200
}

// The bodies have the shape of the service's responses, with made-up IDs. SOAP
// faults travel with status 500, the client's too.
func TestSimpleDB(t *testing.T) {
	tests := []struct {
		file    string
		status  int
		code    string
		class   awsretry.Class
		retried bool
	}{
		{"rest_400_invalid_parameter.xml", 400, "InvalidParameterValue", awsretry.Permanent, false},
		{"rest_403_auth_failure.xml", 403, "AuthFailure", awsretry.Permanent, false},
		{"rest_404_no_such_domain.xml", 404, "NoSuchDomain", awsretry.Permanent, false},
		{"rest_409_conditional_check.xml", 409, "ConditionalCheckFailed", awsretry.Permanent, false},
		{"rest_500_internal_error.xml", 500, "InternalError", awsretry.Transient, true},
		{"rest_503_unavailable.xml", 503, "ServiceUnavailable", awsretry.Transient, true},
		{"soap_client_auth_failure.xml", 500, "Client.AuthFailure", awsretry.Permanent, false},
		{"soap_client_invalid_parameter.xml", 500, "Client.InvalidParameterValue", awsretry.Permanent, false},
		{"soap_server_internal_error.xml", 500, "Server.InternalError", awsretry.Transient, true},
		{"soap_server_unavailable.xml", 500, "Server.ServiceUnavailable", awsretry.Transient, true},
	}
	files, err := filepath.Glob("testdata/simpledb/*.xml")
	if err != nil || len(files) != len(tests) {
		t.Errorf("%d files and %d tests, %v", len(files), len(tests), err)
	}
	for _, test := range tests {
		t.Run(test.file, func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join("testdata/simpledb", test.file))
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				backoff := simpleDBBackoff
				backoff.Jitter = awsretry.NoJitter
				wantDelays := []time.Duration{0}
				if test.retried {
					const ms = time.Millisecond
					wantDelays = []time.Duration{400 * ms, 1600 * ms, 6400 * ms, 0}
				}
				var delays []time.Duration
				resp, err := get(t, &awsretry.Transport{
					Backoff: backoff, MaxAttempts: 4,
					Observe: func(a awsretry.Attempt) {
						delays = append(delays, a.Delay)
						if a.Code != test.code || a.Class != test.class {
							t.Errorf("attempt %d: got %q, %v; want %q, %v", a.Number, a.Code, a.Class, test.code, test.class)
						}
					},
					Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
						return httpfake.Response(req, test.status, io.NopCloser(bytes.NewReader(want))), nil
					}),
				})
				if err != nil {
					t.Fatal(err)
				}
				if body := httpfake.ReadAll(t, resp); body != string(want) {
					t.Errorf("the body is %q", body)
				}
				if !slices.Equal(delays, wantDelays) {
					t.Errorf("the pauses are %v, want %v", delays, wantDelays)
				}
			})
		})
	}
}
