package main

import (
	"bufio"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
)

// A planPrinter writes a plan for people.
type planPrinter struct {
	w       *bufio.Writer
	palette palette
	width   int // see table
	plan    *plan
	all     bool
}

func (pp *planPrinter) say(format string, args ...any) {
	fmt.Fprintln(pp.w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

func (pp *planPrinter) print() {
	p := pp.plan
	pp.say("%s", pp.palette.bold(oneLine(p.file.name)))
	n := p.retries()
	switch {
	case n == 0:
		pp.say("One attempt, no retries")
	case len(p.functions) > 1:
		pp.say("%s, by each backoff function (the policy's is %s)", count(n, "retry"), p.file.policy.HealthyRetryPolicy.BackoffFunction)
	default:
		pp.say("%s, %s of pauses without jitter", count(n, "retry"), span(p.total(0), 0))
	}
	for _, line := range pp.blocks() {
		pp.say("%s", line)
	}
	if n == 0 {
		return
	}
	pp.say("")
	pp.phases()
	pp.say("")
	if len(p.functions) > 1 {
		pp.comparison()
		return
	}
	pp.pauses()
}

// blocks are what the policy says of other things than retries.
func (pp *planPrinter) blocks() []string {
	var lines []string
	policy := pp.plan.file.policy
	if t := policy.ThrottlePolicy; t != nil && t.MaxReceivesPerSecond != nil {
		lines = append(lines, fmt.Sprintf("At most %s a second", count(*t.MaxReceivesPerSecond, "attempt")))
	}
	if r := policy.RequestPolicy; r != nil && r.HeaderContentType != "" {
		line := "Content type " + oneLine(r.HeaderContentType)
		if pp.plan.file.raw {
			line += pp.palette.warn(" (with raw message delivery only)")
		}
		lines = append(lines, line)
	}
	return lines
}

// A tableRow is a line of a table. paint, where it is there and gives one for a column, colours a cell.
type tableRow struct {
	cells []string
	paint func(column int) func(...any) string
}

// table writes rows under a header. It iterates over the rows twice, for their
// widths and to print them, so that a long table is never held in memory.
func (pp *planPrinter) table(columns []column, rows iter.Seq[tableRow]) {
	for i := range columns {
		columns[i].width = text.StringWidth(columns[i].title)
	}
	for row := range rows {
		for i, cell := range row.cells {
			columns[i].width = max(columns[i].width, text.StringWidth(cell))
		}
	}
	t := table{w: pp.w, width: pp.width, columns: columns}
	t.header(pp.palette)
	for row := range rows {
		t.row(row.cells, row.paint)
	}
}

func (pp *planPrinter) phases() {
	p := pp.plan
	retry := p.file.policy.HealthyRetryPolicy
	lo, hi := fmt.Sprintf("%d s", *retry.MinDelayTarget), fmt.Sprintf("%d s", *retry.MaxDelayTarget)
	var rows []tableRow
	for _, phase := range p.phases {
		pauses := map[string]string{immediate: "none", preBackoff: lo, backoff: lo, postBackoff: hi}[phase.name]
		if phase.name == backoff && phase.retries > 1 && lo != hi {
			pauses = lo + " to " + hi
			if len(p.functions) == 1 {
				pauses += ", " + string(retry.BackoffFunction)
			}
		}
		row := []string{phase.name, grouped(phase.retries), pauses}
		if len(p.functions) == 1 {
			row = append(row, span(p.phaseTotal(phase.name), 0))
		}
		rows = append(rows, tableRow{cells: row})
	}
	columns := []column{{title: "PHASE"}, {title: "RETRIES", right: true}, {title: "PAUSES"}}
	if len(p.functions) == 1 {
		columns = append(columns, column{title: "TIME", right: true})
	}
	pp.table(columns, slices.Values(rows))
}

// phaseTotal is the sum of a phase's pauses, by the first function.
func (p *plan) phaseTotal(name string) (sum time.Duration) {
	for _, run := range p.runs {
		if run.phase == name {
			sum += run.total(0, run.last) - run.before[0]
		}
	}
	return sum
}

// decimals are as many as the pauses need, within reason.
func (p *plan) decimals() int {
	for _, run := range p.runs {
		for _, pause := range run.pauses {
			if pause%time.Second != 0 {
				return 3
			}
		}
	}
	return 0
}

func (pp *planPrinter) pauses() {
	decimals := pp.plan.decimals()
	columns := []column{
		{title: "RETRY", right: true}, {title: "PHASE", spare: 1}, {title: "PAUSE", right: true}, {title: "TOTAL", right: true},
	}
	pp.table(columns, func(yield func(tableRow) bool) {
		for line := range pp.plan.lines(pp.all) {
			pause := secondsOf(line.pauses[0], decimals)
			if n := line.last - line.first + 1; n > 1 {
				pause = grouped(n) + " × " + pause
			}
			cells := []string{retryNumbers(line), line.phase, pause, span(line.total(0, line.last), decimals)}
			if !yield(tableRow{cells: cells}) {
				return
			}
		}
	})
}

func (pp *planPrinter) comparison() {
	p := pp.plan
	decimals := p.decimals()
	columns := []column{{title: "RETRY", right: true}, {title: "PHASE", spare: 1}}
	for _, f := range p.functions {
		columns = append(columns, column{title: strings.ToUpper(string(f)), right: true})
	}
	own := 2 + slices.Index(p.functions, p.file.policy.HealthyRetryPolicy.BackoffFunction)
	emphasis := func(column int) func(...any) string {
		if column == own {
			return pp.palette.bold
		}
		return nil
	}
	pp.table(columns, func(yield func(tableRow) bool) {
		for line := range p.lines(pp.all) {
			cells := []string{retryNumbers(line), line.phase}
			for _, pause := range line.pauses {
				cells = append(cells, secondsOf(pause, decimals))
			}
			if !yield(tableRow{cells, emphasis}) {
				return
			}
		}
		sums := []string{"", "total"}
		for i := range p.functions {
			sums = append(sums, span(p.total(i), 0))
		}
		yield(tableRow{sums, func(column int) func(...any) string {
			if column >= 2 && p.refused[column-2] {
				return pp.palette.bad
			}
			return pp.palette.bold
		}})
	})
	for i, f := range p.functions {
		if p.refused[i] {
			pp.say("%s", pp.palette.bad("Amazon SNS refuses the policy with "+string(f)+": the pauses must sum up to 3600 s at most"))
		}
	}
}

func retryNumbers(line pauseRun) string {
	if line.first == line.last {
		return grouped(line.first)
	}
	return grouped(line.first) + "–" + grouped(line.last)
}

func secondsOf(d time.Duration, decimals int) string {
	return strconv.FormatFloat(d.Seconds(), 'f', decimals, 64) + " s"
}

// span is a time of up to many days in their parts.
func span(d time.Duration, decimals int) string {
	unit := time.Second
	for range decimals {
		unit /= 10
	}
	d = d.Round(unit)
	if d < time.Minute {
		return secondsOf(d, decimals)
	}
	const day = 24 * time.Hour
	days, hours, minutes, rest := d/day, d%day/time.Hour, d%time.Hour/time.Minute, d%time.Minute
	width := 2
	if decimals > 0 {
		width += 1 + decimals
	}
	text := fmt.Sprintf("%0*.*f s", width, decimals, rest.Seconds())
	switch {
	case days > 0:
		return fmt.Sprintf("%d d %02d h %02d min %s", days, hours, minutes, text)
	case hours > 0:
		return fmt.Sprintf("%d h %02d min %s", hours, minutes, text)
	}
	return fmt.Sprintf("%d min %s", minutes, text)
}
