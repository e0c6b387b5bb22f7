package delivery

import (
	"context"
	"errors"
	"fmt"

	"example.com/awsretry"
)

// A throttle spaces attempts by throttlePolicy, first come first served and
// without bursts. A nil throttle does not.
type throttle struct{ tokens *awsretry.Quota } // of one token

func newThrottle(policy *ThrottlePolicy) *throttle {
	if policy == nil || policy.MaxReceivesPerSecond == nil {
		return nil
	}
	return &throttle{awsretry.NewQuota(awsretry.QuotaConfig{
		Capacity:        1,
		RefillPerSecond: float64(*policy.MaxReceivesPerSecond),
		Wait:            true,
	})}
}

// wait waits until an attempt may be made. A wait that would end after ctx's
// deadline is refused at once. The error says why the delivery stops, as that
// of Transport.Prepare may.
func (t *throttle) wait(ctx context.Context) error {
	if t == nil {
		return nil
	}
	err := t.tokens.Acquire(ctx, 1)
	if err == nil {
		return nil
	}
	stop := awsretry.StopCanceled
	if errors.Is(err, awsretry.ErrQuotaExceeded) {
		stop, err = awsretry.StopDeadline, context.DeadlineExceeded
	} else if !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return &awsretry.Error{Stop: stop, Err: fmt.Errorf("throttlePolicy.maxReceivesPerSecond left no time: %w", err)}
}
