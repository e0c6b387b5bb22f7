package deliveryqueue

import (
	"context"
	"log/slog"
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

// warnings passes what an operator must know to the current slog.Default.
type warnings struct{}

func (warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && slog.Default().Enabled(ctx, level)
}

func (warnings) Handle(ctx context.Context, r slog.Record) error {
	return slog.Default().Handler().Handle(ctx, r)
}

func (warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return slog.Default().Handler().WithAttrs(attrs)
}

func (warnings) WithGroup(name string) slog.Handler { return slog.Default().Handler().WithGroup(name) }
