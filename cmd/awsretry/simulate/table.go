package simulate

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"example.com/awsretry/cmd/awsretry/internal/format"
)

// WriteTable writes what was simulated and the outcomes, one line for each
// setting. If the columns do not fit into width characters, the rest of them
// follows as another table. A width of 0 means no limit.
func (r *Result) WriteTable(w io.Writer, width int) error {
	rows := [][]string{
		strings.Split("|||amplifi-|goodput|failed|||||throttled|fairness", "|"),
		strings.Split("setting|calls|attempts|cation|calls/s|calls||p50|p99|recovery|attempts|(Jain)", "|"),
	}
	for _, o := range r.Outcomes {
		rows = append(rows, []string{
			o.Setting,
			format.Count(o.Calls),
			format.Count(o.Attempts),
			fmt.Sprintf("%.2fx", o.Amplification),
			fmt.Sprintf("%.1f", o.Goodput),
			format.Count(o.Failed),
			format.Percent(o.FailedShare),
			format.Latency(time.Duration(o.P50)),
			format.Latency(time.Duration(o.P99)),
			recoveryText(o),
			format.Percent(o.ThrottledShare),
			fmt.Sprintf("%.3f", o.Fairness),
		})
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
	fmt.Fprintln(b)
	writeColumns(b, rows, width)
	return b.Flush()
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
