package simulate

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// WriteTable writes what was simulated and the outcomes, one line for each
// setting. If the columns do not fit into width characters, the rest of them
// follows as another table. A width of 0 means no limit.
func (r *Result) WriteTable(w io.Writer, width int) error {
	rows := [][]string{
		{"", "", "", "amplifi-", "goodput", "failed", "", "", "", "", "throttled", "fairness"},
		{"setting", "calls", "attempts", "cation", "calls/s", "calls", "", "p50", "p99", "recovery", "attempts", "(Jain)"},
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
	for _, line := range r.Scenario.summary() {
		fmt.Fprintln(b, line)
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
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
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
			line := fmt.Sprintf("%-*s", widths[0], row[0])
			for i := from; i < to; i++ {
				line += fmt.Sprintf("%*s", gap+widths[i], row[i])
			}
			fmt.Fprintln(w, strings.TrimRight(line, " "))
		}
		from = to
	}
}

// summary says what is simulated, in a few lines.
func (s Scenario) summary() []string {
	var lines []string
	if head := strings.TrimSpace(s.Name + ": " + s.About); head != ":" {
		lines = append(lines, strings.TrimSuffix(head, ":"))
	}
	c := s.Clients
	calling := fmt.Sprintf("%s calls/s in all", number(c.Rate))
	if c.Callers > 0 {
		calling = fmt.Sprintf("%d callers each, thinking %v", c.Callers, c.Think)
	}
	lines = append(lines, fmt.Sprintf("%v, seed %d; %s clients, %s; service of %s requests/s, queue of %s",
		s.Duration, s.Seed, count(int64(c.Count)), calling, number(s.Service.Capacity), count(int64(s.Service.Queue))))
	for _, e := range s.Events {
		to := fmt.Sprintf("to %v", e.To)
		if e.To == s.Duration {
			to = "on"
		}
		lines = append(lines, fmt.Sprintf("from %v %s: %s", e.From, to, e.what()))
	}
	return lines
}

// what says what the event does.
func (e Event) what() string {
	switch e.Kind {
	case Outage:
		return "outage (" + e.How + ")"
	case CapacityStep:
		return fmt.Sprintf("capacity %s/s", number(e.Capacity))
	case Errors:
		return percent(e.Share) + " errors"
	case Throttling:
		each := ""
		if e.Throttle.PerClient {
			each = " each client"
		}
		return fmt.Sprintf("throttled at %s/s%s", number(e.Throttle.Rate), each)
	case SlowLatency:
		return fmt.Sprintf("latency x%s", number(e.Factor))
	}
	return fmt.Sprintf("herd of %d calls each", e.Calls)
}

// count is n with its thousands set apart.
func count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func number(v float64) string {
	if v == float64(int64(v)) {
		return count(int64(v))
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

func percent(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

// latency has three digits or so; of no good call there is none.
func latency(d Duration, good int64) string {
	v := time.Duration(d)
	switch {
	case good == 0:
		return "-"
	case v >= 10*time.Second:
		return fmt.Sprintf("%.1fs", v.Seconds())
	case v >= time.Second:
		return fmt.Sprintf("%.2fs", v.Seconds())
	case v >= 10*time.Millisecond:
		return fmt.Sprintf("%.0fms", v.Seconds()*1e3)
	}
	return fmt.Sprintf("%.2fms", v.Seconds()*1e3)
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
