package deliveryqueue

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// minutely limits a warning to one a minute.
type minutely struct {
	mu   sync.Mutex
	last time.Time
}

func (m *minutely) warn(log func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); m.last.IsZero() || now.Sub(m.last) >= time.Minute {
		m.last = now
		log()
	}
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
