package record

import (
	"net/http"
	"strings"

	"example.com/awsretry/internal/redact"
)

// longestID limits a request ID.
const longestID = 200 // bytes

// otherIDs are the names of request IDs that do not say so at their end: of
// Cloudflare, of Datadog and others, of Slack, and of Kubernetes.
var otherIDs = []string{"Cf-Ray", "X-Trace-Id", "X-Slack-Req-Id", "Audit-Id"}

// RequestID returns the ID that the service gave a request, for a log or a terminal,
// or "". Its header has a name that ends in request-id or requestid, or is one of
// otherIDs. Of several, the one with the shortest name counts: a longer name says more
// of what else it is, as in x-ms-client-request-id. X-Request-Id comes last of them,
// because proxies add it.
func RequestID(h http.Header) string {
	const plain = "X-Request-Id"
	var best, id string
	for name, values := range h {
		if isRequestID(name) && len(values) > 0 && values[0] != "" && !strings.EqualFold(name, plain) &&
			(best == "" || len(name) < len(best) || len(name) == len(best) && name > best) {
			best, id = name, values[0]
		}
	}
	if id == "" {
		id = h.Get(plain)
	}
	for _, name := range otherIDs {
		if id == "" {
			id = h.Get(name)
		}
	}
	return redact.Text(id[:min(len(id), longestID)])
}

// isRequestID reports whether a header's name says that it has a request ID.
func isRequestID(name string) bool {
	for _, end := range []string{"request-id", "requestid"} {
		if len(name) >= len(end) && strings.EqualFold(name[len(name)-len(end):], end) {
			return true
		}
	}
	return false
}
