// Package webhook provides what a sender of webhooks needs in addition to a queue.
// [PublicOnly] sends only to public addresses, so that a customer's URL cannot
// reach the sender's own network. A [Signer] signs each attempt as Standard
// Webhooks specifies (https://www.standardwebhooks.com), so that the receiver can
// verify who sent it. Both can be used as the Base of a deliveryqueue.Config, a
// delivery.Transport or an awsretry.Transport.
package webhook
