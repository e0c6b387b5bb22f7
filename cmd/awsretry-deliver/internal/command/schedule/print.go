package schedule

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"example.com/awsretry/cmd/internal/printer"
	"example.com/awsretry/cmd/internal/term"
)

// A report prints a plan for people.
type report struct {
	*printer.Printer
	plan *plan
}

func (r *report) print() {
	p := r.plan
	r.Say("%s", r.Palette.Bold(term.OneLine(p.file.Name)))
	n := p.retries()
	retries := english.Plural(n, "retry", "")
	switch {
	case n == 0:
		r.Say("One attempt, no retries")
	case len(p.functions) > 1:
		r.Say("%s, by each backoff function (the policy's is %s)",
			retries, p.file.Policy.HealthyRetryPolicy.BackoffFunction)
	default:
		r.Say("%s, %s of pauses without jitter", retries, p.total(0).Round(time.Second).String())
	}
	r.otherRules()
	if n == 0 {
		return
	}
	r.Say("")
	r.phases()
	r.Say("")
	if len(p.functions) > 1 {
		r.comparison()
		return
	}
	r.pauses()
}

// otherRules prints the parts of the policy that are not about retries.
func (r *report) otherRules() {
	policy := r.plan.file.Policy
	if t := policy.ThrottlePolicy; t != nil && t.MaxReceivesPerSecond != nil {
		r.Say("At most %s a second", english.Plural(*t.MaxReceivesPerSecond, "attempt", ""))
	}
	if request := policy.RequestPolicy; request != nil && request.HeaderContentType != "" {
		raw := ""
		if r.plan.file.Raw {
			raw = r.Palette.Warn(" (with raw message delivery only)")
		}
		r.Say("Content type %s%s", term.OneLine(request.HeaderContentType), raw)
	}
}

// table prints rows under a header. It iterates over the rows twice, for their
// widths and to print them, so that a long table needs no memory.
func (r *report) table(columns []term.Column, rows iter.Seq[[]string]) {
	r.Table.Columns = columns
	r.Table.Fit(rows)
	r.Header()
	for row := range rows {
		r.Table.Row(row...)
	}
}

func (r *report) phases() {
	p := r.plan
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
	r.table(columns, slices.Values(rows))
}

// pauses prints the pauses of the only function, and the time that has passed after
// each.
func (r *report) pauses() {
	decimals := r.plan.decimals()
	columns := []term.Column{
		{Title: "RETRY", Right: true},
		{Title: "PHASE", Spare: 1},
		{Title: "PAUSE", Right: true},
		{Title: "TOTAL", Right: true},
	}
	r.table(columns, func(yield func([]string) bool) {
		for line := range r.plan.lines() {
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
func (r *report) comparison() {
	p := r.plan
	decimals := p.decimals()
	columns := []term.Column{{Title: "RETRY", Right: true}, {Title: "PHASE", Spare: 1}}
	for _, f := range p.functions {
		columns = append(columns, term.Column{Title: strings.ToUpper(string(f)), Right: true})
	}
	own := slices.Index(p.functions, p.file.Policy.HealthyRetryPolicy.BackoffFunction)
	r.table(columns, func(yield func([]string) bool) {
		for line := range p.lines() {
			row := []string{retryNumbers(line), line.phase}
			for i, pause := range line.pauses {
				cell := pauseText(pause, decimals)
				if i == own {
					cell = r.Palette.Bold(cell)
				}
				row = append(row, cell)
			}
			if !yield(row) {
				return
			}
		}
		yield(r.totals())
	})
	for i, f := range p.functions {
		if p.refused[i] {
			text := "Amazon SNS refuses the policy with " + string(f) + ": the sum of the pauses must be at most 3600 s"
			r.Say("%s", r.Palette.Bad(text))
		}
	}
}

func (r *report) totals() []string {
	row := []string{"", "total"}
	for i := range r.plan.functions {
		color := r.Palette.Bold
		if r.plan.refused[i] {
			color = r.Palette.Bad
		}
		row = append(row, color(r.plan.total(i).Round(time.Second).String()))
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

// pauseText returns a pause in seconds, so that the pauses of a column can be
// compared at a glance.
func pauseText(d time.Duration, decimals int) string {
	return strconv.FormatFloat(d.Seconds(), 'f', decimals, 64) + "s"
}

func seconds(n int) string { return strconv.Itoa(n) + "s" }
