package contract_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// If a Policy returns something other than a class, RoundTrip returns an error
// that says so.
func TestPolicyWithoutAClass(t *testing.T) {
	for _, class := range []awsretry.Class{-1, 5, 99} {
		for name, outcome := range map[string]outcome{"503": busy, "error": fails(errReset)} {
			t.Run(fmt.Sprintf("Class(%d) for %s", int(class), name), func(t *testing.T) {
				body := httpfake.NewBody(strings.NewReader("x"))
				sends := 0
				tr := retrying(func(req *http.Request) (*http.Response, error) { sends++; return outcome(req, body) })
				tr.Policy = func(*awsretry.Attempt) awsretry.Class { return class }
				resp, err := get(t, tr)
				if err == nil || !strings.Contains(err.Error(), "Policy returned") {
					t.Errorf("%v, %v", resp, err)
				}
				if stop := contract.StopOf(resp, err); stop != awsretry.StopPermanent {
					t.Errorf("stopped by %q", stop)
				}
				if sends != 1 || contract.TokensOf(t, tr) != 500 {
					t.Errorf("%d attempts, %d tokens", sends, contract.TokensOf(t, tr))
				}
				if name == "503" && body.Closes() != 1 {
					t.Errorf("the response was closed %d times", body.Closes())
				}
			})
		}
	}
}
