package schedule

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"example.com/awsretry/cmd/internal/term"
)

// A printer prints a plan for people.
type printer struct {
	w       io.Writer
	palette term.Palette
	width   int // as of term.Table
	plan    *plan
}

func (pr *printer) say(format string, args ...any) {
	fmt.Fprintln(pr.w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

func (pr *printer) print() {
	p := pr.plan
	pr.say("%s", pr.palette.Bold(term.OneLine(p.file.Name)))
	n := p.retries()
	retries := english.Plural(n, "retry", "")
	switch {
	case n == 0:
		pr.say("One attempt, no retries")
	case len(p.functions) > 1:
		pr.say("%s, by each backoff function (the policy's is %s)",
			retries, p.file.Policy.HealthyRetryPolicy.BackoffFunction)
	default:
		pr.say("%s, %s of pauses without jitter", retries, p.total(0).Round(time.Second).String())
	}
	pr.otherRules()
	if n == 0 {
		return
	}
	pr.say("")
	pr.phases()
	pr.say("")
	if len(p.functions) > 1 {
		pr.comparison()
		return
	}
	pr.pauses()
}

// otherRules prints the parts of the policy that are not about retries.
func (pr *printer) otherRules() {
	policy := pr.plan.file.Policy
	if t := policy.ThrottlePolicy; t != nil && t.MaxReceivesPerSecond != nil {
		pr.say("At most %s a second", english.Plural(*t.MaxReceivesPerSecond, "attempt", ""))
	}
	if r := policy.RequestPolicy; r != nil && r.HeaderContentType != "" {
		raw := ""
		if pr.plan.file.Raw {
			raw = pr.palette.Warn(" (with raw message delivery only)")
		}
		pr.say("Content type %s%s", term.OneLine(r.HeaderContentType), raw)
	}
}

// table prints rows under a header. It iterates over the rows twice, for their
// widths and to print them, so that a long table takes no memory.
func (pr *printer) table(columns []term.Column, rows iter.Seq[[]string]) {
	t := term.Table{W: pr.w, Width: pr.width, Columns: columns}
	t.Fit(rows)
	t.Header(pr.palette.Faint)
	for row := range rows {
		t.Row(row...)
	}
}

func (pr *printer) phases() {
	p := pr.plan
	single := len(p.functions) == 1
	retry := p.file.Policy.HealthyRetryPolicy
	least, most := seconds(*retry.MinDelayTarget), seconds(*retry.MaxDelayTarget)
	var rows [][]string
	for _, phase := range p.phases {
		pauses := map[string]string{immediate: "none", preBackoff: least, backoff: least, postBackoff: most}[phase.name]
		if phase.name == backoff && phase.retries > 1 && least != most {
			pauses = least + " to " + most
			if single {
				pauses += ", " + string(retry.BackoffFunction)
			}
		}
		row := []string{phase.name, strconv.Itoa(phase.retries), pauses}
		if single {
			row = append(row, p.phaseTotal(phase.name).Round(time.Second).String())
		}
		rows = append(rows, row)
	}
	columns := []term.Column{{Title: "PHASE"}, {Title: "RETRIES", Right: true}, {Title: "PAUSES"}}
	if single {
		columns = append(columns, term.Column{Title: "TIME", Right: true})
	}
	pr.table(columns, slices.Values(rows))
}

// pauses prints the pauses of the one function, and the time that has passed
// after each.
func (pr *printer) pauses() {
	decimals := pr.plan.decimals()
	columns := []term.Column{
		{Title: "RETRY", Right: true},
		{Title: "PHASE", Spare: 1},
		{Title: "PAUSE", Right: true},
		{Title: "TOTAL", Right: true},
	}
	pr.table(columns, func(yield func([]string) bool) {
		for line := range pr.plan.lines() {
			pause := pauseText(line.pauses[0], decimals)
			if n := line.last - line.first + 1; n > 1 {
				pause = strconv.Itoa(n) + " × " + pause
			}
			if !yield([]string{retryNumbers(line), line.phase, pause, line.total(0, line.last).Round(time.Millisecond).String()}) {
				return
			}
		}
	})
}

// comparison prints the pauses of all functions.
func (pr *printer) comparison() {
	p := pr.plan
	decimals := p.decimals()
	columns := []term.Column{{Title: "RETRY", Right: true}, {Title: "PHASE", Spare: 1}}
	for _, f := range p.functions {
		columns = append(columns, term.Column{Title: strings.ToUpper(string(f)), Right: true})
	}
	own := slices.Index(p.functions, p.file.Policy.HealthyRetryPolicy.BackoffFunction)
	pr.table(columns, func(yield func([]string) bool) {
		for line := range p.lines() {
			row := []string{retryNumbers(line), line.phase}
			for i, pause := range line.pauses {
				cell := pauseText(pause, decimals)
				if i == own {
					cell = pr.palette.Bold(cell)
				}
				row = append(row, cell)
			}
			if !yield(row) {
				return
			}
		}
		yield(pr.totals())
	})
	for i, f := range p.functions {
		if p.refused[i] {
			text := "Amazon SNS refuses the policy with " + string(f) + ": the sum of the pauses must be at most 3600 s"
			pr.say("%s", pr.palette.Bad(text))
		}
	}
}

func (pr *printer) totals() []string {
	row := []string{"", "total"}
	for i := range pr.plan.functions {
		color := pr.palette.Bold
		if pr.plan.refused[i] {
			color = pr.palette.Bad
		}
		row = append(row, color(pr.plan.total(i).Round(time.Second).String()))
	}
	return row
}

// decimals returns how many decimals the pauses have: 3 if any pause is not a
// whole number of seconds.
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

func retryNumbers(line run) string {
	if line.first == line.last {
		return strconv.Itoa(line.first)
	}
	return strconv.Itoa(line.first) + "–" + strconv.Itoa(line.last)
}

// pauseText returns a pause in seconds, so that the pauses of a column compare
// at a glance.
func pauseText(d time.Duration, decimals int) string {
	return strconv.FormatFloat(d.Seconds(), 'f', decimals, 64) + "s"
}

func seconds(n int) string { return strconv.Itoa(n) + "s" }
