package services

import (
	"net/http"
	"strings"
	"time"

	"example.com/awsretry"
)

// Okta is the management and authentication API of Okta ("Rate limits" and "Rate
// limit best practices", 2025-05). Each route has its own limit and its own
// partition. The delay after a 429 lasts until the reset of that limit.
var Okta = Service{
	RetryAfter: oktaDelay,
	Limits:     awsretry.ReadLimits,
	Partition:  oktaPartition,
}

func oktaDelay(resp *http.Response, _ []byte) (time.Duration, bool) {
	if resp.StatusCode != http.StatusTooManyRequests {
		return 0, false
	}
	return untilReset(resp)
}

// oktaPartition returns the host and the route. In a route, {id} replaces every
// second segment after the version, which is an ID.
func oktaPartition(req *http.Request) string {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	if len(parts) < 3 || parts[0] != "api" {
		return host(req) + " /" + parts[0]
	}
	route := host(req) + " /" + strings.Join(parts[:3], "/")
	if len(parts) > 3 {
		route += "/{id}"
	}
	if len(parts) > 4 {
		route += "/" + parts[4]
	}
	return route
}
