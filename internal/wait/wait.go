// Package wait has the waits of a call: with the limit that its caller sets, and with
// others.
package wait

import (
	"context"
	"time"
)

// For waits until done is closed, d has passed or ctx has ended. It reports
// whether done is closed. A nil done never is.
func For(ctx context.Context, d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
