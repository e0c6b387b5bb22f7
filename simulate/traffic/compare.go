package traffic

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"example.com/awsretry/simulate"
)

// Off returns which figures of the present setting, as it is simulated, are
// further from what was recorded than a prediction of another setting may be
// trusted: the share of failed calls by more than 3 points and what chance
// explains, attempts by more than 5 %, p50 or p99 by more than 25 %, or 1 % more
// of the calls did not end.
func (f *Fitted) Off(present simulate.Outcome) (off []string) {
	r, p := f.Recorded, present
	ended := float64(max(r.Good+r.Failed, 1))
	was := float64(r.Failed) / ended
	chance := 2 * math.Sqrt(was*(1-was)/ended)
	if math.Abs(p.FailedShare-was) > 0.03+chance {
		off = append(off, fmt.Sprintf("%.1f %% of the calls fail instead of %.1f %%", 100*p.FailedShare, 100*was))
	}
	lost := float64(max(r.Calls-r.Good-r.Failed, 0)) / float64(max(r.Calls, 1))
	if share := p.UnfinishedShare(); share > lost+0.01 {
		off = append(off, fmt.Sprintf("%.1f %% of the calls do not end", 100*share))
	}
	for _, figure := range []struct {
		name    string
		is, was float64
		most    float64
	}{
		{"attempts", float64(p.Attempts), float64(r.Attempts), 0.05},
		{"p50", float64(p.P50), float64(r.P50), 0.25},
		{"p99", float64(p.P99), float64(r.P99), 0.25},
	} {
		if figure.was > 0 && math.Abs(figure.is-figure.was) > figure.most*figure.was {
			off = append(off, fmt.Sprintf("%s %s", figure.name, difference(figure.is, figure.was)))
		}
	}
	return off
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

// Verdict returns whether present, the simulated outcome of the present setting,
// is what was recorded, and what that was.
func (f *Fitted) Verdict(present simulate.Outcome) Verdict {
	r, off := f.Recorded, f.Off(present)
	ms := func(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / float64(time.Millisecond) }
	return Verdict{
		Reproduced: len(off) == 0, Off: off, Unseen: f.Unseen, From: r.From, To: r.To, Calls: r.Calls, Attempts: r.Attempts,
		Good: r.Good, Failed: r.Failed, Throttled: r.Throttled, P50: ms(r.P50), P99: ms(r.P99),
	}
}

// WriteComparison writes whether present, the simulated outcome of the present
// setting, is what was recorded, a table of both, and a list of what the log does
// not show.
func (f *Fitted) WriteComparison(w io.Writer, present simulate.Outcome) error {
	b := bufio.NewWriter(w)
	r := f.Recorded
	if off := f.Off(present); len(off) > 0 {
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
	p := present
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
