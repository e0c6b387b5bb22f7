package simulate

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
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

// unfinished is the column of calls that did not end, for outcomes that have more
// of them than the calls that are always under way.
var unfinished = Column{"unfinished calls", "unfin-", "ished", func(o Outcome) string { return format.Count(o.Unfinished) }}

// unfinished reports whether a setting has so many unfinished calls that its
// figures depend on them.
func (r *Result) unfinished() bool {
	return slices.ContainsFunc(r.Outcomes, func(o Outcome) bool { return o.UnfinishedShare() > mostUnfinished })
}

// Columns returns the columns of the table for r.
func (r *Result) Columns() []Column {
	if !r.unfinished() {
		return Columns()
	}
	const after = 6 // failed calls and their share
	return slices.Insert(Columns(), after+1, unfinished)
}

// Warnings say which settings' figures depend on calls that did not end.
func (r *Result) Warnings() []string {
	warnings := []string{}
	for _, o := range r.Outcomes {
		if o.UnfinishedShare() > mostUnfinished {
			warnings = append(warnings, fmt.Sprintf("%s: %s of the calls had not ended when the run did (drain lets them); "+
				"their times and outcomes are not known, and p50 and p99 are at least as long as shown",
				o.Setting, format.Percent(o.UnfinishedShare())))
		}
	}
	return warnings
}

// WriteTable writes what was simulated and the outcomes, one line for each setting.
// Columns that do not fit into width characters follow in another table. A width of
// 0 means no limit.
func (r *Result) WriteTable(w io.Writer, width int) error {
	rows := make([][]string, 2+len(r.Outcomes))
	for _, c := range r.Columns() {
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
	for i, warning := range r.Warnings() {
		if i == 0 {
			fmt.Fprintln(b)
		}
		fmt.Fprintf(b, "warning: %s\n", warning)
	}
	return b.Flush()
}

// Rounding says how times are rounded, or is "" if that changes no figure.
func (r *Result) Rounding() string {
	if !r.coarse() {
		return ""
	}
	return fmt.Sprintf("times are rounded to %v, because many calls may be under way at once", r.Resolution)
}

// coarse reports whether the resolution is more than a hundredth of the time that a
// call takes.
func (r *Result) coarse() bool {
	s := r.Scenario.Service
	return float64(r.Resolution) > (s.Latency.Mean()+float64(s.Network))/100
}

// writeColumns aligns the first column left and the others right.
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
	least := ""
	if o.UnfinishedShare() > mostUnfinished {
		least = "at least "
	}
	return fmt.Sprintf("%.2f attempts per call, %s failed, p99 %s%s",
		o.Amplification, format.Percent(o.FailedShare), least, format.Latency(time.Duration(o.P99)))
}
