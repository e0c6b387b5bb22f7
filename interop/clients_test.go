package interop

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

// A clientCase is one call of an SDK whose own retries are off. The server
// throttles as the SDK's service does.
type clientCase struct {
	name    string
	policy  awsretry.Policy // nil: DefaultPolicy
	base    func(http.RoundTripper) http.RoundTripper
	service []http.HandlerFunc                             // for one request after another, the last one from then on
	call    func(client *http.Client, server string) error // returns nil if the SDK returns what it must
	sent    int                                            // requests that the server must see
	atLeast time.Duration                                  // that the call must take, for a Retry-After
	failed  func(error) bool                               // nil: the call must succeed
}

// Of each client, one request is saved by the Transport, and another must not
// be sent again.
func TestThirdPartyClients(t *testing.T) {
	for client, cases := range map[string][]clientCase{
		"go-github":        githubCases(),
		"openai-go":        openaiCases(),
		"anthropic-sdk-go": anthropicCases(),
		"stripe-go":        stripeCases(),
		"elasticsearch":    elasticCases(),
		"vault":            vaultCases(),
	} {
		saved, once := 0, 0
		for _, c := range cases {
			if c.sent > 1 && c.failed == nil {
				saved++
			} else if c.sent == 1 && c.failed != nil {
				once++
			}
			t.Run(client+"/"+c.name, func(t *testing.T) { synctest.Test(t, c.run) })
		}
		if saved == 0 || once == 0 {
			t.Errorf("%s: %d requests are saved and %d are sent once; the cases must have both", client, saved, once)
		}
	}
}

func (c clientCase) run(t *testing.T) {
	srv := serveScript(t, c.service...)
	tr := &awsretry.Transport{Base: srv.Base, Policy: c.policy, Backoff: briefly}
	if c.base != nil {
		tr.Base = c.base(srv.Base)
	}
	defer tr.CloseIdleConnections()

	start := time.Now()
	err := c.call(&http.Client{Transport: tr}, srv.URL)
	if took := time.Since(start); took < c.atLeast {
		t.Errorf("took %v; the service asked for %v", took, c.atLeast)
	}
	switch {
	case c.failed == nil && err != nil:
		t.Errorf("the call failed: %v", err)
	case c.failed != nil && (err == nil || !c.failed(err)):
		t.Errorf("the error is %v (%T), want the SDK's own for the response", err, err)
	}
	seen := srv.requests()
	if len(seen) != c.sent {
		t.Fatalf("the server saw %d requests, want %d: %q", len(seen), c.sent, seen)
	}
	for i, r := range seen {
		if r != seen[0] {
			t.Errorf("request %d was\n%+v\nthe first one\n%+v", i+1, r, seen[0])
		}
	}
}

// obey returns the policy of a service that says in a header of its own, by
// "true" or "false", whether to retry. Without the header, a 409 is retried,
// too: it says that a lock was not free in time.
func obey(header string) awsretry.Policy {
	return func(a *awsretry.Attempt) awsretry.Class {
		class := awsretry.DefaultPolicy(a)
		switch r := a.Response; {
		case r != nil && r.Header.Get(header) == "false":
			return awsretry.Permanent
		case r != nil && class == awsretry.Permanent &&
			(r.Header.Get(header) == "true" || r.StatusCode == http.StatusConflict):
			return awsretry.Transient
		}
		return class
	}
}
