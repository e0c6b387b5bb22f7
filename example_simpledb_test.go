package awsretry_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
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
	busy := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if busy {
			busy = false
			w.WriteHeader(http.StatusServiceUnavailable)
			w.Write(unavailable)
		}
	}))
	defer server.Close()
	client := &http.Client{Transport: &awsretry.Transport{Backoff: simpleDBBackoff, MaxAttempts: 4}}
	resp, err := client.Get(server.URL + "/?Action=ListDomains")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
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
				pauses := simpleDBBackoff
				pauses.Jitter = awsretry.NoJitter
				var got []awsretry.Attempt
				tr := &awsretry.Transport{
					Backoff:     pauses,
					MaxAttempts: 4,
					Observe:     func(a awsretry.Attempt) { got = append(got, a) },
					Base: simpleDBBase(func(req *http.Request) (*http.Response, error) {
						body := io.NopCloser(bytes.NewReader(want))
						return &http.Response{StatusCode: test.status, Header: http.Header{}, Body: body,
							Request: req}, nil
					}),
				}
				req, err := http.NewRequest("GET", "http://simpledb.example/?Action=ListDomains", nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if body, err := io.ReadAll(resp.Body); string(body) != string(want) || err != nil {
					t.Errorf("the body is %q, %v", body, err)
				}
				var delays []time.Duration
				for _, a := range got {
					if a.Code != test.code || a.Class != test.class {
						t.Errorf("attempt %d: got %q, %v; want %q, %v",
							a.Number, a.Code, a.Class, test.code, test.class)
					}
					delays = append(delays, a.Delay)
				}
				wantDelays := []time.Duration{0}
				if test.retried {
					wantDelays = []time.Duration{400 * time.Millisecond, 1600 * time.Millisecond,
						6400 * time.Millisecond, 0}
				}
				if !slices.Equal(delays, wantDelays) {
					t.Errorf("the pauses are %v, want %v", delays, wantDelays)
				}
			})
		})
	}
}

type simpleDBBase func(*http.Request) (*http.Response, error)

func (f simpleDBBase) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
