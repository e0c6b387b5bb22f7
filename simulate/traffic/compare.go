package traffic

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"example.com/awsretry/simulate"
)

// WriteComparison writes a table of what was recorded and of present, the
// simulated outcome of the present setting, and a list of what the log does not
// show.
func (f *Fitted) WriteComparison(w io.Writer, present simulate.Outcome) error {
	b := bufio.NewWriter(w)
	r := f.Recorded
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
