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

// Off returns which figures of the present setting, as it is simulated, are
// further from what was recorded than a prediction of another setting may be
// trusted: the share of failed calls by more than 3 points, attempts (of each
// call, if calls arrive) by more than 5 %, or p50 or p99 by more than 25 %, or 1 %
// more of the calls did not end. Each is so after what chance explains: the
// outcomes are of several seeds, and what was recorded is a sample, too.
func (f *Fitted) Off(present ...simulate.Outcome) (off []string) {
	r, c := f.Recorded, f.Scenario.Clients
	ended := float64(max(r.Good+r.Failed, 1))
	was := float64(r.Failed) / ended
	chance := 2 * math.Sqrt(was*(1-was)/ended)
	first := present[0]
	between := func(of func(simulate.Outcome) float64) (least, most float64) {
		least = of(first)
		for _, o := range present {
			least, most = min(least, of(o)), max(most, of(o))
		}
		return least, most
	}
	least, most := between(func(o simulate.Outcome) float64 { return o.FailedShare })
	if least > was+0.03+chance || most < was-0.03-chance {
		off = append(off, fmt.Sprintf("%.1f %% of the calls fail instead of %.1f %%", 100*first.FailedShare, 100*was))
	}
	lost := float64(max(r.Calls-r.Good-r.Failed, 0)) / float64(max(r.Calls, 1))
	least, _ = between(func(o simulate.Outcome) float64 { // all callers may have a call under way
		return float64(o.Unfinished-int64(c.Count*c.Callers)) / float64(max(o.Calls, 1))
	})
	if least > lost+0.01 {
		off = append(off, fmt.Sprintf("%.1f %% of the calls do not end", 100*first.UnfinishedShare()))
	}
	attempts := func(o simulate.Outcome) float64 {
		if c.Rate > 0 {
			return o.Amplification * float64(r.Calls)
		}
		return float64(o.Attempts)
	}
	for _, figure := range []struct {
		name          string
		of            func(simulate.Outcome) float64
		was, from, to float64
	}{
		{"attempts", attempts, float64(r.Attempts), 0.95 * float64(r.Attempts), 1.05 * float64(r.Attempts)},
		{"p50", func(o simulate.Outcome) float64 { return float64(o.P50) }, float64(r.P50), 0.75 * float64(r.around50[0]), 1.25 * float64(r.around50[1])},
		{"p99", func(o simulate.Outcome) float64 { return float64(o.P99) }, float64(r.P99), 0.75 * float64(r.around99[0]), 1.25 * float64(r.around99[1])},
	} {
		if least, most := between(figure.of); figure.was > 0 && (most < figure.from || least > figure.to) {
			off = append(off, fmt.Sprintf("%s %s", figure.name, difference(figure.of(first), figure.was)))
		}
	}
	return off
}

// Again simulates the first setting of s with four other seeds, so that what it
// does by chance is not taken for a difference.
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

// A Verdict is what is known of a prediction from a log.
type Verdict struct {
	Reproduced bool     `json:"reproduced"` // the present setting, as it is simulated, does what was recorded
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

// Verdict returns whether the simulated outcomes of the present setting are what
// was recorded, and what that was.
func (f *Fitted) Verdict(present ...simulate.Outcome) Verdict {
	r, off := f.Recorded, f.Off(present...)
	ms := func(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / float64(time.Millisecond) }
	return Verdict{
		Reproduced: len(off) == 0, Off: off, Unseen: f.Unseen, From: r.From, To: r.To, Calls: r.Calls, Attempts: r.Attempts,
		Good: r.Good, Failed: r.Failed, Throttled: r.Throttled, P50: ms(r.P50), P99: ms(r.P99),
	}
}

// WriteComparison writes whether the simulated outcomes of the present setting are
// what was recorded, a table of the first one and that, and a list of what the log
// does not show.
func (f *Fitted) WriteComparison(w io.Writer, present ...simulate.Outcome) error {
	b := bufio.NewWriter(w)
	r := f.Recorded
	if off := f.Off(present...); len(off) > 0 {
		fmt.Fprintf(b, "The simulation DOES NOT REPRODUCE this log: %s.\nWhat it says of other settings is not to be trusted.\n\n",
			strings.Join(off, ", "))
	} else {
		fmt.Fprint(b, "The simulation reproduces this log.\n\n")
	}
	fmt.Fprintf(b, "%s lines of LogAllTo, %s others; fitted from %s to %s",
		humanize.Comma(f.lines.Used), humanize.Comma(f.lines.unused()), stamp(r.From), stamp(r.To))
	if length := r.To.Sub(r.From); r.Whole > length+time.Second {
		fmt.Fprintf(b, ",\nwhere most attempts fail, of %v in all", r.Whole.Round(time.Second))
	}
	fmt.Fprint(b, "\n\n")
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tcalls\tattempts\tgoodput/s\tfailed\tp50\tp99\tthrottled\t")
	figures := func(calls, attempts int64, goodput float64, failed int64, p50, p99 time.Duration, n429 int64) []float64 {
		return []float64{
			float64(calls), float64(attempts), goodput, float64(failed), float64(p50), float64(p99), float64(n429),
		}
	}
	p := present[0]
	was := figures(r.Calls, r.Attempts, r.Goodput, r.Failed, r.P50, r.P99, r.Throttled)
	is := figures(p.Calls, p.Attempts, p.Goodput, p.Failed, time.Duration(p.P50), time.Duration(p.P99), p.Throttled)
	for i, row := range [][]float64{was, is} {
		fmt.Fprintf(table, "%s\t%s\t%s\t%.1f\t%s\t%v\t%v\t%s\t\n", []string{"recorded", "simulated"}[i],
			humanize.Comma(int64(row[0])), humanize.Comma(int64(row[1])), row[2], humanize.Comma(int64(row[3])),
			rounded(time.Duration(row[4])), rounded(time.Duration(row[5])), humanize.Comma(int64(row[6])))
	}
	fmt.Fprint(table, "difference\t")
	for i := range was {
		fmt.Fprintf(table, "%s\t", difference(is[i], was[i]))
	}
	fmt.Fprintln(table)
	table.Flush()
	fmt.Fprintln(b, "\nThe log does not show:")
	f.writeUnseen(b, "")
	fmt.Fprintln(b)
	return b.Flush()
}

// difference returns how much a number differs from what was recorded.
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

// writeUnseen writes a list of what the log does not show, each line after a
// prefix.
func (f *Fitted) writeUnseen(w io.Writer, prefix string) {
	for _, text := range f.Unseen {
		mark := " -"
		for _, line := range wrap(text) {
			fmt.Fprintf(w, "%s%s%s\n", prefix, mark, line)
			mark = "  "
		}
	}
}
