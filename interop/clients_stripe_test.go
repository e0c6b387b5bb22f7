package interop

import (
	"context"
	"errors"
	"net/http"
	"time"

	"example.com/awsretry"
	"github.com/stripe/stripe-go/v83"
)

// stripePolicy does as Stripe says in a header, and repeats a payment only with its idempotency key, which stripe-go sends with
// every POST.
var stripePolicy = awsretry.IdempotentOnly(obey("Stripe-Should-Retry"))

func stripeCases() []clientCase {
	sdk := func(client *http.Client, server string) *stripe.Client {
		return stripe.NewClient("sk_test", stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
			HTTPClient: client, URL: stripe.String(server), MaxNetworkRetries: stripe.Int64(0), LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
		})))
	}
	pay := func(client *http.Client, server string) error {
		intent, err := sdk(client, server).V1PaymentIntents.Create(context.Background(), &stripe.PaymentIntentCreateParams{
			Amount: stripe.Int64(500), Currency: stripe.String("eur"),
		})
		if err == nil && intent.ID != "pi_1" {
			err = errors.New("not the payment: " + intent.ID)
		}
		return err
	}
	// The SDK gives every POST a key; this one is taken away again on the way.
	payWithoutKey := func(client *http.Client, server string) error {
		return pay(&http.Client{Transport: dropHeader{client.Transport, "Idempotency-Key"}}, server)
	}
	paid := answer(200, `{"id": "pi_1", "object": "payment_intent", "amount": 500}`)
	code := func(want stripe.ErrorCode) func(error) bool {
		return isError(func(e *stripe.Error) bool { return e.Code == want })
	}
	lockTimeout := `{"error": {"type": "invalid_request_error", "code": "lock_timeout", "message": "…"}}`
	return []clientCase{{
		name: "object is locked", policy: stripePolicy, call: pay, sent: 2,
		answers: []http.HandlerFunc{answer(409, lockTimeout), paid},
	}, {
		name: "object is locked, and the header says so", policy: stripePolicy, call: pay, sent: 2,
		answers: []http.HandlerFunc{answer(400, lockTimeout, "Stripe-Should-Retry", "true"), paid},
	}, {
		name: "rate limit", policy: stripePolicy, call: pay, sent: 2, atLeast: time.Second,
		answers: []http.HandlerFunc{answer(429, `{"error": {"code": "rate_limit"}}`, "Retry-After", "1"), paid},
	}, {
		name: "no answer to a payment with a key", policy: stripePolicy, call: pay, sent: 2,
		answers: []http.HandlerFunc{hangUp, paid},
	}, {
		name: "no answer to a payment without a key", policy: stripePolicy, call: payWithoutKey, sent: 1,
		answers: []http.HandlerFunc{hangUp},
		failed:  func(err error) bool { return err != nil },
	}, {
		name: "card declined", policy: stripePolicy, call: pay, sent: 1,
		answers: []http.HandlerFunc{answer(402, `{"error": {"type": "card_error", "code": "card_declined"}}`)},
		failed:  code("card_declined"),
	}, {
		name: "the first answer is kept for the key", policy: stripePolicy, call: pay, sent: 1,
		answers: []http.HandlerFunc{answer(500, `{"error": {"type": "api_error", "code": "api_error"}}`, "Stripe-Should-Retry", "false")},
		failed:  code("api_error"),
	}}
}

// dropHeader takes a header out of every request.
type dropHeader struct {
	http.RoundTripper
	name string
}

func (d dropHeader) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del(d.name)
	return d.RoundTripper.RoundTrip(req)
}
