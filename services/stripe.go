package services

import "example.com/awsretry"

// Stripe is the API of Stripe ("Idempotent requests", "Advanced error handling"
// and "Rate limits", 2025-07). The Stripe-Should-Retry header allows or forbids
// a retry. Each POST gets an Idempotency-Key, so that it is executed once.
var Stripe = Service{
	Policy:         obeying("Stripe-Should-Retry", awsretry.DefaultPolicy),
	IdempotencyKey: awsretry.RandomKey,
	Peek:           wholeJSON(nil),
}
