package services

import "example.com/awsretry"

// Stripe is the API of Stripe ("Idempotent requests", "Advanced error handling"
// and "Rate limits", 2025-07). It says in Stripe-Should-Retry whether a request may
// be sent again. Each POST has an Idempotency-Key, so that it is executed once.
var Stripe = Service{
	Policy:         obeying("Stripe-Should-Retry", awsretry.DefaultPolicy),
	IdempotencyKey: awsretry.RandomKey,
}
