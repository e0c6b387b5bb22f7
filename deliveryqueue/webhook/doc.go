// Package webhook has what a sender of webhooks needs in addition to a queue:
// [PublicOnly] sends only to public addresses, so that a customer's URL cannot
// reach the sender's own network, and a [Signer] signs each attempt as Standard
// Webhooks specifies (https://www.standardwebhooks.com), so that the receiver
// can verify who sent it. Both fit into the Base of a deliveryqueue.Config, of a
// delivery.Transport and of an awsretry.Transport.
package webhook
