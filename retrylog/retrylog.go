// Package retrylog logs the attempts of a Transport, with options that
// awsretry.LogTo does not have.
package retrylog

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"example.com/awsretry"
	"example.com/awsretry/internal/record"
	"example.com/awsretry/internal/redact"
)

// A Config configures the log of attempts. The zero value logs what awsretry.LogTo
// logs.
type Config struct {
	// Logger receives the log. Nil means the result of slog.Default at the time.
	Logger *slog.Logger

	// All also logs successes and canceled calls, at level debug. If the response
	// announces limits that [awsretry.ReadLimits] knows, the attribute limits has
	// them, as in "requests 59/60 1s refills, tokens 800/1000 12s refills": the
	// name, what remains of the quota, the reset, and refills if units come back
	// steadily.
	All bool

	// EachSecond logs one warning for each partition and second. Its attribute
	// failures is the number of warnings that it represents: itself, and those that
	// were left out since the previous line. If no warning follows in the next
	// second, a later attempt of the partition logs their number.
	EachSecond bool

	// OmitPaths logs only the scheme and host of URLs, for services that take
	// secrets in the path.
	OmitPaths bool
}

// Observer returns an observer for Transport.Observe or awsretry.WithObserver. It
// is safe for concurrent use.
func (c Config) Observer() func(awsretry.Attempt) {
	failures := tally{of: make(map[string]*tallied)}
	return func(a awsretry.Attempt) {
		logger := c.Logger
		if logger == nil {
			logger = slog.Default()
		}
		ctx := context.Background()
		if a.Request != nil {
			ctx = a.Request.Context()
		}
		quiet := a.Class == awsretry.Success || a.Stop == awsretry.StopCanceled
		logged := !quiet || c.All && logger.Enabled(ctx, slog.LevelDebug)
		var r record.Record
		warns := false
		if logged {
			r = a.Record(record.Options{OmitPaths: c.OmitPaths})
			warns, logged = r.Level == slog.LevelWarn, logger.Enabled(ctx, r.Level)
		}
		var count int // of failures
		if c.EachSecond {
			count = failures.take(a.Partition, time.Now().Unix(), warns)
			switch {
			case warns && count == 0:
				return
			case !warns && count > 0:
				logger.LogAttrs(ctx, slog.LevelWarn, "failures before",
					slog.String("partition", redact.Text(a.Partition)), slog.Int("failures", count))
			}
		}
		if !logged {
			return
		}
		if c.All {
			r.Text("limits", limitsText(awsretry.ReadLimits(a.Response)))
		}
		if warns {
			r.Number("failures", int64(count))
		}
		logger.LogAttrs(ctx, r.Level, r.Message, r.Attrs...)
	}
}

// limitsText returns the attribute limits, or "". Their names come from a
// server: they are short, and have neither white space nor commas.
func limitsText(limits []awsretry.Limit) string {
	const longest = 50 // bytes of a name
	oneWord := func(r rune) rune {
		if unicode.IsSpace(r) || r == ',' {
			return '_'
		}
		return r
	}
	var text []byte
	for i, l := range limits {
		if i > 0 {
			text = append(text, ", "...)
		}
		if name := l.Name[:min(len(l.Name), longest)]; name != "" {
			text = append(append(text, strings.Map(oneWord, redact.Text(name))...), ' ')
		}
		text = strconv.AppendFloat(text, l.Remaining, 'g', 15, 64)
		if l.Quota > 0 {
			text = strconv.AppendFloat(append(text, '/'), l.Quota, 'g', 15, 64)
		}
		if l.Reset >= 0 {
			text = append(append(text, ' '), l.Reset.Round(time.Millisecond).String()...)
		}
		if l.Refills {
			text = append(text, " refills"...)
		}
	}
	return string(text)
}

// A tally counts the failures of each partition since their last line.
type tally struct {
	mu sync.Mutex // guards of and what it points to
	of map[string]*tallied
}

type tallied struct {
	second   int64 // of the last line
	failures int   // since then
}

// mostTallied limits the partitions of a tally. Those beyond count as one.
const mostTallied = 1024

// take counts an attempt that was observed in a second, and returns how many
// failures a line now stands for, or 0 if there is to be none.
func (t *tally) take(partition string, second int64, failed bool) (failures int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.of[partition]
	if e == nil && len(t.of) >= mostTallied {
		partition = ""
		e = t.of[partition]
	}
	switch {
	case e == nil && !failed:
		return 0
	case e == nil:
		e = new(tallied)
		t.of[partition] = e
	}
	if failed {
		e.failures++
	}
	if e.second == second || !failed && second < e.second+2 { // the next second's failure says more
		return 0
	}
	failures, e.failures, e.second = e.failures, 0, second
	if failures == 0 {
		delete(t.of, partition)
	}
	return failures
}
