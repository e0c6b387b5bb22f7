package simulate

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
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
			count(o.Calls),
			count(o.Attempts),
			fmt.Sprintf("%.2fx", o.Amplification),
			fmt.Sprintf("%.1f", o.Goodput),
			count(o.Failed),
			percent(o.FailedShare),
			latency(o.P50, o.Good),
			latency(o.P99, o.Good),
			recoveryText(o),
			percent(o.ThrottledShare),
			fmt.Sprintf("%.3f", o.Fairness),
		})
	}
	b := bufio.NewWriter(w)
	s, events := summarize(r.Scenario)
	if s.title != "" {
		fmt.Fprintln(b, s.title)
	}
	fmt.Fprintln(b, s.size)
	for _, event := range events {
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
