package awsretry

import "net/http"

// BaseOf returns what t sends its attempts through.
func BaseOf(t *Transport) http.RoundTripper { return t.base() }
