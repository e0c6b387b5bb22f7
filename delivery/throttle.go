package delivery

import (
	"context"
	"errors"
	"fmt"

	"example.com/awsretry"
)

// A throttle spaces attempts by throttlePolicy, first come first served and
// without bursts. A nil throttle does not limit them.
type throttle struct{ tokens *awsretry.Quota } // with a capacity of 1

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

// wait blocks until an attempt may be made. If the wait would end after ctx's
// deadline, it returns an error at once. The error is an *awsretry.Error with
// the reason to stop, which Transport.Prepare may return.
func (t *throttle) wait(ctx context.Context) error {
	if t == nil {
		return nil
	}
	err := t.tokens.Acquire(ctx, 1)
	if err == nil {
		return nil
	}
	stop := awsretry.StopCanceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		stop = awsretry.StopDeadline
	}
	if errors.Is(err, awsretry.ErrQuotaExceeded) {
		stop, err = awsretry.StopDeadline, context.DeadlineExceeded
	} else if !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return &awsretry.Error{Stop: stop, Err: fmt.Errorf("throttlePolicy.maxReceivesPerSecond left no time: %w", err)}
}
