package httpfake

import (
	"io"
	"log/slog"
	"slices"
)

// Log returns a logger of all levels that leaves out the named attributes.
func Log(out io.Writer, omit ...string) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if slices.Contains(omit, a.Key) {
				return slog.Attr{}
			}
			return a
		},
	}))
}
