package attempts

import (
	"context"
	"io"
	"log/slog"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/retrylog"
)

// JSON returns an observer that writes each attempt to w on a line: the record
// that package retrylog logs, and what more adds to it.
func JSON(w io.Writer, more func(awsretry.Attempt) []slog.Attr) func(awsretry.Attempt) {
	h := &handler{Handler: slog.NewJSONHandler(term.Escape(w), &slog.HandlerOptions{Level: slog.LevelDebug})}
	log := retrylog.Config{Logger: slog.New(h), All: true}.Observer()
	return func(a awsretry.Attempt) {
		h.more = more(a)
		log(a)
	}
}

// A handler adds attributes to the records of another. One goroutine uses it at
// a time.
type handler struct {
	slog.Handler
	more []slog.Attr
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	r.AddAttrs(h.more...)
	return h.Handler.Handle(ctx, r)
}
