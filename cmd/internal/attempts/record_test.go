package attempts

import (
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry"
)

func TestRecord(t *testing.T) {
	response := &http.Response{StatusCode: 400, Header: http.Header{"Retry-After": {"3"}, "X-Request-Id": {"id-1\n"}}}
	u := &url.URL{Scheme: "https", User: url.User("me"), Host: "example.com", Path: "/orders", RawQuery: "key=secret"}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	for _, c := range []struct {
		name    string
		attempt awsretry.Attempt
		state   awsretry.State
		want    string
	}{
		{"adaptive", awsretry.Attempt{
			Number: 2, Response: response, Code: "SlowDown", Class: awsretry.Throttled,
			Elapsed: 1234567, Waited: 20 * time.Millisecond, Delay: 3 * time.Second,
		}, awsretry.State{Tokens: 480, Limited: true, SendRate: 0.5},
			`{"attempt":2,"start":"2026-01-02T02:04:05Z","method":"PUT","url":"https://example.com/orders",` +
				`"status":400,"code":"SlowDown","class":"throttled","request_id":"id-1","retry_after":"3",` +
				`"elapsed_ms":1.235,"waited_ms":20,"tokens":480,"send_rate_per_second":0.5,"delay_ms":3000}`},
		{"error without a bucket", awsretry.Attempt{
			Number: 1, Err: &url.Error{Op: "Put", URL: u.String(), Err: http.ErrServerClosed},
			Class: awsretry.Permanent, Stop: awsretry.StopPermanent,
		}, awsretry.State{Tokens: math.MaxInt},
			`{"attempt":1,"start":"2026-01-02T02:04:05Z","method":"PUT","url":"https://example.com/orders",` +
				`"error":"Put \"https://example.com/orders?…\": http: Server closed","class":"permanent",` +
				`"elapsed_ms":0,"stop":"permanent"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.attempt.Start, c.attempt.Request = start, &http.Request{Method: "PUT", URL: u}
			got, err := json.Marshal(NewRecord(c.attempt).WithState(c.state))
			if diff := cmp.Diff(c.want, string(got)); diff != "" || err != nil {
				t.Errorf("%v, want to got:\n%s", err, diff)
			}
		})
	}
}
