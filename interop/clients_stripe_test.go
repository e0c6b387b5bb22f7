package interop

import (
	"context"
	"errors"
	"net/http"
	"time"

	"example.com/awsretry"
	"github.com/stripe/stripe-go/v83"
)

// stripePolicy obeys Stripe's header. It repeats a payment only with its
// idempotency key, which stripe-go sends with every POST.
var stripePolicy = awsretry.IdempotentOnly(obey("Stripe-Should-Retry"))

func stripeCases() []clientCase {
	pay := func(client *http.Client, server string) error {
		sdk := stripe.NewClient("sk_test", stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
			HTTPClient: client, URL: stripe.String(server), MaxNetworkRetries: stripe.Int64(0),
			LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
		})))
		intent, err := sdk.V1PaymentIntents.Create(context.Background(), &stripe.PaymentIntentCreateParams{
			Amount: stripe.Int64(500), Currency: stripe.String("eur"),
		})
		if err == nil && intent.ID != "pi_1" {
			err = errors.New("not the payment: " + intent.ID)
		}
		return err
	}
	payWithoutKey := func(client *http.Client, server string) error {
		return pay(&http.Client{Transport: dropHeader{client.Transport, "Idempotency-Key"}}, server)
	}
	paid := respond(200, `{"id": "pi_1", "object": "payment_intent", "amount": 500}`)
	isCode := func(code stripe.ErrorCode) func(error) bool {
		return isError(func(e *stripe.Error) bool { return e.Code == code })
	}
	const locked = `{"error": {"type": "invalid_request_error", "code": "lock_timeout", "message": "…"}}`
	return []clientCase{{
		name: "locked object", policy: stripePolicy, call: pay, sent: 2,
		service: []http.HandlerFunc{respond(409, locked), paid},
	}, {
		name: "locked object, by the header", policy: stripePolicy, call: pay, sent: 2,
		service: []http.HandlerFunc{respond(400, locked, "Stripe-Should-Retry", "true"), paid},
	}, {
		name: "rate limit", policy: stripePolicy, call: pay, sent: 2, atLeast: time.Second,
		service: []http.HandlerFunc{respond(429, `{"error": {"code": "rate_limit"}}`, "Retry-After", "1"), paid},
	}, {
		name: "no response to a payment with a key", policy: stripePolicy, call: pay, sent: 2,
		service: []http.HandlerFunc{hangUp, paid},
	}, {
		name: "no response to a payment without a key", policy: stripePolicy, call: payWithoutKey, sent: 1,
		service: []http.HandlerFunc{hangUp},
		failed:  func(err error) bool { return err != nil },
	}, {
		name: "declined card", policy: stripePolicy, call: pay, sent: 1,
		service: []http.HandlerFunc{respond(402, `{"error": {"type": "card_error", "code": "card_declined"}}`)},
		failed:  isCode("card_declined"),
	}, {
		name: "the first response is kept for the key", policy: stripePolicy, call: pay, sent: 1,
		service: []http.HandlerFunc{
			respond(500, `{"error": {"type": "api_error", "code": "api_error"}}`, "Stripe-Should-Retry", "false"),
		},
		failed: isCode("api_error"),
	}}
}

// dropHeader removes a header of every request.
type dropHeader struct {
	http.RoundTripper
	name string
}

func (d dropHeader) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del(d.name)
	return d.RoundTripper.RoundTrip(req)
}
