package contract_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/sharing"
)

// awake reports whether share has been woken since the last call.
func awake(share sharing.Share) bool {
	select {
	case <-share.Wake():
		return true
	default:
		return false
	}
}

// What the fleet should know at once wakes the store, and nothing else does.
func TestSharedWake(t *testing.T) {
	const lease = 10 * time.Second
	for _, tt := range []struct {
		name    string
		rate    float64       // granted; 0 for no limit
		after   time.Duration // how long after the grant
		limit   awsretry.RateLimitConfig
		base    httpfake.Base
		timeout time.Duration
		want    bool
		notSent int // how many of the requests
	}{
		{name: "a success", base: always(ok)},
		{name: "a success at a limited rate", rate: 1, after: 2 * time.Second, base: always(ok)},
		{name: "a permanent failure", base: always(responds(400))},
		{name: "a retry", base: httpfake.Statuses(500, 200), want: true},
		{name: "a throttled response", base: always(throttled), want: true},
		{name: "a success after the lease", after: lease, base: always(ok), want: true},
		{name: "a wait within the lease", rate: 1, base: always(ok)},
		{name: "a wait beyond the lease", rate: 0.05, base: always(ok), want: true},
		{
			name: "FailFast", rate: 1, limit: awsretry.RateLimitConfig{FailFast: true},
			base: always(ok), want: true, notSent: 1,
		},
		{
			name: "MaxWait", rate: 1, limit: awsretry.RateLimitConfig{MaxWait: time.Millisecond},
			base: always(ok), want: true, notSent: 1,
		},
		{name: "a deadline", rate: 1, timeout: time.Millisecond, base: always(ok), want: true, notSent: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{}
				base := always(ok)
				tr := retrying(func(req *http.Request) (*http.Response, error) { return base(req) })
				tr.Mode, tr.RateLimit, tr.MaxAttempts, tr.Shared = awsretry.Adaptive, tt.limit, 2, s
				if _, err := get(t, tr); err != nil {
					t.Fatal(err)
				}
				share := s.shares[0]
				grant := sharing.Grant{
					Until: time.Now().Add(lease), Limited: tt.rate > 0, Rate: tt.rate, FleetRate: tt.rate, Members: 1,
				}
				share.Grant(grant)
				for range 2 { // until no token is left
					time.Sleep(time.Minute)
					grant.Until = time.Now().Add(lease)
					share.Grant(grant)
					_, _ = get(t, tr)
				}
				awake(share)
				share.Usage()

				time.Sleep(tt.after)
				base = tt.base
				ctx, cancel := context.WithCancel(t.Context())
				if tt.timeout > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), tt.timeout)
				}
				defer cancel()
				_, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
				if refused := errors.Is(err, awsretry.ErrRateLimited); refused != (tt.notSent > 0) {
					t.Errorf("%v", err)
				}
				if got := awake(share); got != tt.want {
					t.Errorf("woken: %v", got)
				}
				if usage := share.Usage(); usage.NotSent != tt.notSent {
					t.Errorf("%+v", usage)
				}
			})
		})
	}
}
