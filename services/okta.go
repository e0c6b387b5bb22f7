package services

import (
	"net/http"
	"regexp"
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
	Peek:       wholeJSON(nil),
}

func oktaDelay(resp *http.Response, _ []byte) (time.Duration, bool) {
	if resp.StatusCode != http.StatusTooManyRequests {
		return 0, false
	}
	return untilReset(resp)
}

// oktaPartition returns the host and the route, or the host alone of a path that is
// neither of the API nor of OAuth. In a route, {id} replaces every second segment
// after the version, which is an ID, and whatever is not a word.
func oktaPartition(req *http.Request) string {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	switch {
	case parts[0] == "oauth2":
		return host(req) + " /oauth2"
	case parts[0] != "api" || len(parts) < 3 || parts[1] != "v1":
		return host(req)
	}
	route := host(req) + " /api/v1/" + wordOr(parts[2], "{id}")
	if len(parts) > 3 {
		route += "/{id}"
	}
	if len(parts) > 4 {
		route += "/" + wordOr(parts[4], "{id}")
	}
	return route
}

var oktaWord = regexp.MustCompile(`^[A-Za-z][A-Za-z-]{0,39}$`)

// wordOr returns segment if it can be the name of a resource, and otherwise other.
func wordOr(segment, other string) string {
	if oktaWord.MatchString(segment) {
		return segment
	}
	return other
}
