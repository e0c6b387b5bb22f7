package schedule

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/awsretry/cmd/internal/printer"
	"example.com/awsretry/cmd/internal/term"
)

// print prints the plan for people.
func (p *plan) print(r *printer.Printer, name string) {
	retries := printer.Plural(p.Retries, "retry", "")
	r.Say("%s", r.Palette.Bold(term.OneLine(name)))
	switch {
	case p.Retries == 0:
		r.Say("One attempt, no retries")
	case len(p.Schedules) > 1:
		r.Say("%s, by each backoff function (the policy's is %s)", retries, p.Policy.HealthyRetryPolicy.BackoffFunction)
	default:
		r.Say("%s, %s of pauses without jitter", retries, sum(p.Schedules[0].Total))
	}
	if t := p.Policy.ThrottlePolicy; t != nil && t.MaxReceivesPerSecond != nil {
		r.Say("At most %s a second", printer.Plural(*t.MaxReceivesPerSecond, "attempt", ""))
	}
	if request := p.Policy.RequestPolicy; request != nil && request.HeaderContentType != "" {
		raw := ""
		if p.Raw {
			raw = r.Palette.Warn(" (with raw message delivery only)")
		}
		r.Say("Content type %s%s", term.OneLine(request.HeaderContentType), raw)
	}
	if p.Retries > 0 {
		p.table(r)
	}
}

// sum returns a sum of pauses. All parts of the report have it alike.
func sum(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond).String()
}

// table prints the pauses, and the time that has passed after each or, of several
// functions, in all.
func (p *plan) table(r *printer.Printer) {
	all := p.Schedules
	single, decimals := len(all) == 1, 0
	columns := []term.Column{{Title: "RETRY", Right: true}, {Title: "PHASE", Spare: 1}}
	for _, s := range all {
		columns = append(columns, term.Column{Title: strings.ToUpper(string(s.Function)), Right: true})
		if slices.ContainsFunc(s.Pauses, func(p pause) bool { return p.Seconds != math.Trunc(p.Seconds) }) {
			decimals = 3
		}
	}
	if single {
		columns[2].Title = "PAUSE"
		columns = append(columns, term.Column{Title: "TOTAL", Right: true})
	}
	var rows [][]string
	for k, line := range all[0].Pauses {
		row, times := []string{strconv.Itoa(line.First), line.Phase}, ""
		if line.Last > line.First {
			row[0] += "–" + strconv.Itoa(line.Last)
			times = fmt.Sprintf("%d × ", line.Last-line.First+1)
		}
		for _, s := range all {
			cell := fmt.Sprintf("%.*fs", decimals, s.Pauses[k].Seconds)
			if !single && s.Function == p.Policy.HealthyRetryPolicy.BackoffFunction {
				cell = r.Palette.Bold(cell)
			}
			row = append(row, times+cell)
		}
		if single {
			row = append(row, sum(line.Total))
		}
		rows = append(rows, row)
	}
	totals, refused := []string{"", "total"}, ""
	for _, s := range all {
		color := r.Palette.Bold
		if !s.Allowed {
			color = r.Palette.Bad
			refused += color("Amazon SNS refuses the policy with "+s.Function+": the sum of the pauses must be at most 3600 s") + "\n"
		}
		totals = append(totals, color(sum(s.Total)))
	}
	if !single {
		rows = append(rows, totals)
	}
	r.Table.Columns = columns
	r.Say("")
	r.Table.Fit(slices.Values(rows))
	r.Header()
	for _, row := range rows {
		r.Table.Row(row...)
	}
	fmt.Fprint(r.Out, refused)
}
