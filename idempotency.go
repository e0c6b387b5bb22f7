package awsretry

import (
	"net/http"

	"example.com/awsretry/internal/awsproto"
	"example.com/awsretry/internal/neterr"
)

// IdempotentOnly returns a policy that classifies as policy does, but makes
// Transient and Timeout Permanent unless it is safe to send the request twice:
// its method is idempotent (RFC 9110), it has an Idempotency-Key or
// X-Idempotency-Key header, also from Transport.IdempotencyKey, or nothing of it
// was sent. Throttled stays: the
// service did not execute the request. A nil policy means DefaultPolicy.
func IdempotentOnly(policy Policy) Policy {
	if policy == nil {
		policy = DefaultPolicy
	}
	return func(a *Attempt) Class {
		class := policy(a)
		if class != Transient && class != Timeout || idempotent(a) || neterr.NeverSent(a.Err) {
			return class
		}
		return Permanent
	}
}

func idempotent(a *Attempt) bool {
	if a.IdempotencyKey != "" {
		return true
	}
	req := a.Request
	if req == nil {
		return false
	}
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return hasKey(req)
}

func hasKey(req *http.Request) bool {
	_, key := req.Header[keyHeader]
	_, xKey := req.Header["X-Idempotency-Key"]
	return key || xKey
}

// keyHeader is the header of draft-ietf-httpapi-idempotency-key-header.
const keyHeader = "Idempotency-Key"

// RandomKey returns a random UUID (RFC 9562, version 4), for
// Transport.IdempotencyKey.
func RandomKey(*http.Request) string { return awsproto.NewInvocationID() }
