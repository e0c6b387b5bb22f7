package deliveryqueue

import (
	"sync"
	"time"
)

// rarely limits how often something is done.
type rarely struct {
	mu   sync.Mutex
	last time.Time
}

// due reports whether the last time that it reported true is that long ago.
func (r *rarely) due(every time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if !r.last.IsZero() && now.Sub(r.last) < every {
		return false
	}
	r.last = now
	return true
}
