package deliveryqueue

import (
	"sync/atomic"
	"time"
)

// rarely limits how often something is done.
type rarely struct{ last atomic.Int64 } // in Unix nanoseconds

// due reports whether the last time that it reported true is that long ago, or the
// clock was set back since then.
func (r *rarely) due(every time.Duration) bool {
	now, last := time.Now().UnixNano(), r.last.Load()
	return (now-last >= every.Nanoseconds() || now < last) && r.last.CompareAndSwap(last, now)
}
