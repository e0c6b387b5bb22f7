package simulate

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"example.com/awsretry/simulate/internal/format"
)

// A Column is a column of the table.
type Column struct {
	Name         string
	above, below string // its name in a terminal
	Cell         func(Outcome) string
}

// Columns returns the columns of the table. The first one is the setting.
func Columns() []Column {
	return []Column{
		{"setting", "", "setting", func(o Outcome) string { return o.Setting }},
		{"calls", "", "calls", func(o Outcome) string { return format.Count(o.Calls) }},
		{"attempts", "", "attempts", func(o Outcome) string { return format.Count(o.Attempts) }},
		{"amplification", "amplifi-", "cation", func(o Outcome) string { return fmt.Sprintf("%.2fx", o.Amplification) }},
		{"goodput, calls/s", "goodput", "calls/s", func(o Outcome) string { return fmt.Sprintf("%.1f", o.Goodput) }},
		{"failed calls", "failed", "calls", func(o Outcome) string { return format.Count(o.Failed) }},
		{"share of calls", "", "", func(o Outcome) string { return format.Percent(o.FailedShare) }},
		{"p50", "", "p50", func(o Outcome) string { return format.Latency(time.Duration(o.P50)) }},
		{"p99", "", "p99", func(o Outcome) string { return format.Latency(time.Duration(o.P99)) }},
		{"recovery", "", "recovery", recoveryText},
		{"throttled attempts", "throttled", "attempts", func(o Outcome) string { return format.Percent(o.ThrottledShare) }},
		{
			"largest backlog", "largest", "backlog",
			func(o Outcome) string { return format.Count(int64(math.Ceil(o.Backlog))) },
		},
		{"fairness (Jain)", "fairness", "(Jain)", func(o Outcome) string { return fmt.Sprintf("%.3f", o.Fairness) }},
	}
}

// WriteTable writes what was simulated and the outcomes, one line for each
// setting. If the columns do not fit into width characters, the rest of them
// follows as another table. A width of 0 means no limit.
func (r *Result) WriteTable(w io.Writer, width int) error {
	rows := make([][]string, 2+len(r.Outcomes))
	for _, c := range Columns() {
		rows[0] = append(rows[0], c.above)
		rows[1] = append(rows[1], c.below)
		for i, o := range r.Outcomes {
			rows[2+i] = append(rows[2+i], c.Cell(o))
		}
	}
	b := bufio.NewWriter(w)
	s := r.Scenario.Summary()
	if s.Title != "" {
		fmt.Fprintln(b, s.Title)
	}
	fmt.Fprintln(b, s.Size)
	for _, event := range s.Events {
		fmt.Fprintln(b, event)
	}
	if rounding := r.Rounding(); rounding != "" {
		fmt.Fprintln(b, rounding)
	}
	fmt.Fprintln(b)
	writeColumns(b, rows, width)
	return b.Flush()
}

// Rounding says how times are rounded, or is "" if that changes no figure.
func (r *Result) Rounding() string {
	if !r.coarse() {
		return ""
	}
	return fmt.Sprintf("times are rounded to %v, because many calls may be under way at once", r.Resolution)
}

// coarse reports whether the resolution is more than a hundredth of what a call
// takes.
func (r *Result) coarse() bool {
	s := r.Scenario.Service
	return float64(r.Resolution) > (s.Latency.Mean()+float64(s.Network))/100
}

// writeColumns aligns the first column to the left and the others to the right.
func writeColumns(w io.Writer, rows [][]string, width int) {
	const gap = 2
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], text.StringWidth(cell))
		}
	}
	for from := 1; from < len(widths); {
		to, room := from+1, width-widths[0]-gap-widths[from]
		for to < len(widths) && (width == 0 || room >= gap+widths[to]) {
			room -= gap + widths[to]
			to++
		}
		if from > 1 {
			fmt.Fprintln(w)
		}
		for _, row := range rows {
			line := text.AlignLeft.Apply(row[0], widths[0])
			for i := from; i < to; i++ {
				line += text.AlignRight.Apply(row[i], gap+widths[i])
			}
			fmt.Fprintln(w, strings.TrimRight(line, " "))
		}
		from = to
	}
}

func recoveryText(o Outcome) string {
	switch o.Recovered {
	case RecoveredInRun:
		return o.Recovery.String()
	case NotRecovered:
		return "over " + o.Recovery.String()
	}
	return "-"
}

// Figures returns the outcome's most telling numbers in a line.
func (o Outcome) Figures() string {
	return fmt.Sprintf("%.2f attempts per call, %s failed, p99 %s",
		o.Amplification, format.Percent(o.FailedShare), format.Latency(time.Duration(o.P99)))
}
