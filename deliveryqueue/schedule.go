package deliveryqueue

import (
	"time"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
)

// Schedule returns a policy whose retries have the delays of backoff, as many as add
// up to maxAge at most. Attempts, a Retry-After and a pause add to it. The delays are
// computed once, and each delivery varies them by a tenth to either side, so backoff
// needs no jitter, and an Exponential without a Jitter has none. Other fields of the
// policy may be set.
//
// It is for senders of webhooks, who retry for days: Amazon SNS, whose policies end
// after an hour, has nothing like it. Enqueue returns an error if there are more than
// 1,000 delays.
func Schedule(backoff awsretry.Backoff, maxAge time.Duration) *delivery.Policy {
	if e, ok := backoff.(awsretry.Exponential); ok && e.Jitter == nil {
		e.Jitter = awsretry.NoJitter
		backoff = e
	}
	delays := []time.Duration{}
	for left, last := maxAge, time.Duration(0); len(delays) <= mostDelays; {
		last = max(backoff.Delay(len(delays), awsretry.Transient, last), 0)
		if left -= last; left < 0 {
			break
		}
		delays = append(delays, last)
	}
	return &delivery.Policy{Schedule: delays}
}

// mostDelays is how many delays a delivery.Policy may have.
const mostDelays = 1000
