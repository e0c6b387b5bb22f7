package services

import (
	"net/http"

	"example.com/awsretry"
)

// Stripe is the API of Stripe ("Idempotent requests", "Advanced error handling"
// and "Rate limits", 2025-07). It says in Stripe-Should-Retry whether a request may
// be sent again. Each POST has an Idempotency-Key, so that it is executed once.
var Stripe = Service{
	Policy:         obeying("Stripe-Should-Retry", stripePolicy),
	IdempotencyKey: awsretry.RandomKey,
}

// stripePolicy retries a 409, which says that a request with the same key, or one
// that locks the same object, is being executed.
func stripePolicy(a *awsretry.Attempt) awsretry.Class {
	if a.Response != nil && a.Response.StatusCode == http.StatusConflict {
		return awsretry.Transient
	}
	return awsretry.DefaultPolicy(a)
}
