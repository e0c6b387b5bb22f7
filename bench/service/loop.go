package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"example.com/awsretry/bench/internal/output"
	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

// A loop is callers that never rest, and a service that gives them a reason to.
type loop struct {
	name string
	period
}

func (l loop) title() string { return l.name }

// closedLoops returns a service that throttles, and one that is down.
func closedLoops(callers int, from, to time.Duration) []loop {
	throttles := throttled(1, callers, from, to, step{0, 100})
	down := throttles
	down.scenario.Events = []scenario.Event{{Kind: scenario.Outage}}
	return []loop{
		{fmt.Sprintf("The service admits 100 requests per second, %d callers", callers), throttles},
		{fmt.Sprintf("The service answers 503 to everything, %d callers", callers), down},
	}
}

const longPollName = "awsretry standard, LongPoll"

// inLoops returns what the closed loops compare: the libraries, and what makes
// their callers wait.
func inLoops() []library {
	return append(slices.Clone(libraries),
		library{name: longPollName, over: ours(longPoll)},
		library{name: "awsretry standard, Revision2026, LongPoll", over: ours(revision2026, longPoll)},
		library{name: "awsretry adaptive, LongPoll", over: ours(adaptive, longPoll)},
		library{name: "awsretry standard, no bucket", over: ours(noBucket)},
		library{name: "aws-sdk-go-v2 standard, ratelimit.None", over: sdk(sdkWithoutQuota, fast)},
	)
}

func sdkWithoutQuota(cfg *aws.Config) {
	cfg.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) { o.RateLimiter = ratelimit.None })
	}
}

// loopFigures are rates per second, and shares.
type loopFigures struct {
	attempts, failed, succeeded float64 // per second; the last two of calls
	refused                     float64 // share of the attempts
	perSuccess                  float64 // attempts; NaN if no call succeeds
}

// measure runs the libraries in virtual time.
func (l loop) measure(ctx context.Context, settings []scenario.Setting) ([]loopFigures, error) {
	l.scenario.Settings = settings
	r, err := simulate.Run(ctx, l.scenario, simulate.Options{})
	if err != nil {
		return nil, err
	}
	figures := make([]loopFigures, len(settings))
	for i, o := range r.Outcomes {
		figures[i] = loopFiguresOf(o.Series, int(l.from/time.Second))
	}
	return figures, nil
}

// loopFiguresOf leaves out the seconds before from.
func loopFiguresOf(s simulate.Series, from int) loopFigures {
	length := float64(len(s.Attempts) - from)
	attempts, good := total(s.Attempts[from:]), total(s.Good[from:])
	f := loopFigures{
		attempts:  attempts / length,
		failed:    total(s.Bad[from:]) / length,
		succeeded: good / length,
		refused:   total(s.Throttled[from:]) / attempts,

		perSuccess: math.NaN(),
	}
	if good > 0 {
		f.perSuccess = attempts / good
	}
	return f
}

// printLoops writes the tables of the closed loops as Markdown.
func (r results) printLoops(w io.Writer) {
	for _, l := range r.loops {
		fmt.Fprintf(w, "## %s\n\nMeasured from %v to %v.\n\n", l.of.name, l.of.from, l.of.scenario.Duration)
		var cells [][]any
		for _, row := range l.rows {
			f := row.figures
			cells = append(cells, []any{
				row.library, orNone("%.0f", f.attempts), percent(f.refused), orNone("%.0f", f.succeeded),
				orNone("%.0f", f.failed), orNone("%.1f", f.perSuccess),
			})
		}
		output.Table(w, 1, []any{
			"library", "attempts/s", "throttled", "calls succeeded/s", "calls failed/s", "attempts per success",
		}, cells)
	}
}
