package schedule

import (
	"fmt"
	"math"
	"slices"
	"strconv"
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
	default:
		r.Say("%s, %s of pauses without jitter", retries, sum(p.Total))
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

// table prints the pauses, and the time that has passed after each.
func (p *plan) table(r *printer.Printer) {
	decimals := 0
	if slices.ContainsFunc(p.Pauses, func(p pause) bool { return p.Seconds != math.Trunc(p.Seconds) }) {
		decimals = 3
	}
	var rows [][]string
	for _, line := range p.Pauses {
		retries, times := strconv.Itoa(line.First), ""
		if line.Last > line.First {
			retries += "–" + strconv.Itoa(line.Last)
			times = fmt.Sprintf("%d × ", line.Last-line.First+1)
		}
		rows = append(rows, []string{retries, line.Phase, fmt.Sprintf("%s%.*fs", times, decimals, line.Seconds), sum(line.Total)})
	}
	r.Table.Columns = []term.Column{
		{Title: "RETRY", Right: true}, {Title: "PHASE", Spare: 1}, {Title: "PAUSE", Right: true}, {Title: "TOTAL", Right: true},
	}
	r.Say("")
	r.Table.Fit(slices.Values(rows))
	r.Header()
	for _, row := range rows {
		r.Table.Row(row...)
	}
}
