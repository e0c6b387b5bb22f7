package traffic

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

// Off returns which simulated figures of the present setting differ so much from
// the recorded ones that predictions of other settings cannot be trusted: the share
// of failed calls by more than 3 points, attempts (per call, if calls arrive) by
// more than 5 %, p50 or p99 by more than 25 %, or unfinished calls by more than 1 %
// of the calls. Differences that chance explains do not count: the outcomes are of
// several seeds, and the recorded figures are a sample, too.
func (f *Fitted) Off(present ...simulate.Outcome) (off []string) {
	r, c, first := f.Recorded, f.Scenario.Clients, present[0]
	ended := float64(max(r.Good+r.Failed, 1))
	failed := float64(r.Failed) / ended
	chance := 2 * math.Sqrt(failed*(1-failed)/ended)
	lost := float64(max(r.Calls-r.Good-r.Failed, 0)) / float64(max(r.Calls, 1))
	attempts := func(o simulate.Outcome) float64 {
		if c.Rate > 0 {
			return o.Amplification * float64(r.Calls)
		}
		return float64(o.Attempts)
	}
	p50 := func(o simulate.Outcome) float64 { return float64(o.P50) }
	p99 := func(o simulate.Outcome) float64 { return float64(o.P99) }
	text := func(name string, of func(simulate.Outcome) float64, was float64) string {
		return name + " " + difference(of(first), was)
	}
	for _, figure := range []struct {
		of          func(simulate.Outcome) float64
		least, most float64 // 0: not known
		text        string
	}{
		{func(o simulate.Outcome) float64 { return o.FailedShare }, failed - 0.03 - chance, failed + 0.03 + chance,
			fmt.Sprintf("%.1f %% of the calls fail instead of %.1f %%", 100*first.FailedShare, 100*failed)},
		{func(o simulate.Outcome) float64 { // all callers may have a call under way
			return float64(o.Unfinished-int64(c.Count*c.Callers)) / float64(max(o.Calls, 1))
		}, math.Inf(-1), lost + 0.01, fmt.Sprintf("%.1f %% of the calls do not end", 100*first.UnfinishedShare())},
		{attempts, 0.95 * float64(r.Attempts), 1.05 * float64(r.Attempts), text("attempts", attempts, float64(r.Attempts))},
		{p50, 0.75 * float64(r.around50[0]), 1.25 * float64(r.around50[1]), text("p50", p50, float64(r.P50))},
		{p99, 0.75 * float64(r.around99[0]), 1.25 * float64(r.around99[1]), text("p99", p99, float64(r.P99))},
	} {
		least, most := figure.of(first), figure.of(first)
		for _, o := range present {
			least, most = min(least, figure.of(o)), max(most, figure.of(o))
		}
		if figure.most > 0 && (most < figure.least || least > figure.most) {
			off = append(off, figure.text)
		}
	}
	return off
}

// Again simulates the first setting of s with four other seeds, so that chance is
// not mistaken for a difference.
func Again(ctx context.Context, s scenario.Scenario, o simulate.Options) ([]simulate.Outcome, error) {
	s.Settings = s.Settings[:1]
	var all []simulate.Outcome
	for range 4 {
		s.Seed++
		r, err := simulate.Run(ctx, s, o)
		if err != nil {
			return nil, err
		}
		all = append(all, r.Outcomes[0])
	}
	return all, nil
}

// A Verdict tells whether a prediction from a log can be trusted.
type Verdict struct {
	Reproduced bool     `json:"reproduced"` // the simulation of the present setting reproduces the recorded figures
	Off        []string `json:"off"`        // which figures are off, see Fitted.Off
	Unseen     []string `json:"unseen"`     // what the log does not show

	From      time.Time `json:"recorded_from"`
	To        time.Time `json:"recorded_to"`
	Calls     int64     `json:"calls"`
	Attempts  int64     `json:"attempts"`
	Good      int64     `json:"good"`
	Failed    int64     `json:"failed"`
	Throttled int64     `json:"throttled"`
	P50       float64   `json:"p50_ms"`
	P99       float64   `json:"p99_ms"`
}

// Verdict returns whether the simulated outcomes of the present setting reproduce
// what was recorded, and the recorded figures.
func (f *Fitted) Verdict(present ...simulate.Outcome) Verdict {
	r, off := f.Recorded, f.Off(present...)
	ms := func(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / float64(time.Millisecond) }
	return Verdict{
		Reproduced: len(off) == 0, Off: off, Unseen: f.Unseen, From: r.From, To: r.To, Calls: r.Calls, Attempts: r.Attempts,
		Good: r.Good, Failed: r.Failed, Throttled: r.Throttled, P50: ms(r.P50), P99: ms(r.P99),
	}
}

// WriteComparison writes whether the simulated outcomes of the present setting
// reproduce what was recorded, a table of the first outcome and the recorded
// figures, and a list of what the log does not show.
func (f *Fitted) WriteComparison(w io.Writer, present ...simulate.Outcome) error {
	b := bufio.NewWriter(w)
	r := f.Recorded
	if off := f.Off(present...); len(off) > 0 {
		fmt.Fprintf(b, "The simulation DOES NOT REPRODUCE this log: %s.\nWhat it says of other settings is not to be trusted.\n\n",
			strings.Join(off, ", "))
	} else {
		fmt.Fprint(b, "The simulation reproduces this log.\n\n")
	}
	fmt.Fprintf(b, "%s lines of retrylog, %s others; fitted from %s to %s",
		humanize.Comma(f.lines.Used), humanize.Comma(f.lines.unused()), stamp(r.From), stamp(r.To))
	if length := r.To.Sub(r.From); r.Whole > length+time.Second {
		fmt.Fprintf(b, ",\nwhere most attempts fail, of %v in all", r.Whole.Round(time.Second))
	}
	fmt.Fprint(b, "\n\n")
	p := present[0]
	number := func(v float64) string { return humanize.Comma(int64(v)) }
	perSecond := func(v float64) string { return fmt.Sprintf("%.1f", v) }
	took := func(v float64) string { return rounded(time.Duration(v)).String() }
	rows := [4]string{"", "recorded", "simulated", "difference"}
	for _, column := range []struct {
		name    string
		was, is float64
		text    func(float64) string
	}{
		{"calls", float64(r.Calls), float64(p.Calls), number},
		{"attempts", float64(r.Attempts), float64(p.Attempts), number},
		{"goodput/s", r.Goodput, p.Goodput, perSecond},
		{"failed", float64(r.Failed), float64(p.Failed), number},
		{"p50", float64(r.P50), float64(p.P50), took},
		{"p99", float64(r.P99), float64(p.P99), took},
		{"throttled", float64(r.Throttled), float64(p.Throttled), number},
	} {
		rows[0] += "\t" + column.name
		rows[1] += "\t" + column.text(column.was)
		rows[2] += "\t" + column.text(column.is)
		rows[3] += "\t" + difference(column.is, column.was)
	}
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, strings.Join(rows[:], "\t\n")+"\t")
	table.Flush()
	fmt.Fprintln(b, "\nThe log does not show:")
	f.writeUnseen(b, "")
	fmt.Fprintln(b)
	return b.Flush()
}

// difference returns how much a number differs from the recorded one.
func difference(is, was float64) string {
	switch {
	case is == was:
		return "0%"
	case was == 0:
		return "-"
	}
	percent := 100 * (is - was) / was
	if math.Abs(percent) < 9.95 {
		return fmt.Sprintf("%+.1f%%", percent)
	}
	return fmt.Sprintf("%+.0f%%", percent)
}
