package main

import (
	"fmt"
	"io"
	"strings"

	"example.com/awsretry/bench/internal/output"
)

// compare prints what CubicPacing and ScaledPacing make of each scenario, and
// clients that send at part of the limit, if that is above 0.
func compare(w io.Writer, scenarios []scenario, seeds int, part float64) {
	names := []string{"cubic", "scaled"}
	if part > 0 {
		names = append(names, fmt.Sprintf("steady %v", part))
	}
	var jobs []job
	for _, s := range scenarios {
		laws := []newLaw{cubic, defaultSetting().newLaw, s.steadyAt(part)}
		for _, law := range laws[:len(names)] {
			jobs = append(jobs, job{s, law})
		}
	}
	header := []any{"scenario", "pacing", "worst goodput"}
	for _, f := range judged {
		header = append(header, f.name)
	}
	var rows [][]any
	for i, sample := range take(jobs, seeds) {
		name := ""
		if i%len(names) == 0 {
			name = jobs[i].scenario.name
		}
		row := []any{name, names[i%len(names)], percent(sample.worst(judged[0].of))}
		for _, f := range judged {
			mean, _ := sample.mean(f.of)
			row = append(row, f.show(mean))
		}
		rows = append(rows, row)
	}
	output.Table(w, 2, header, rows)
	fmt.Fprintf(w, "%s\n", strings.ReplaceAll(compared, "SEEDS", fmt.Sprint(seeds)))
}

const compared = `worst goodput: the least of SEEDS runs; all others are the mean of them
goodput: successful calls / those that the service could have served; throttled: of the attempts; failed: of the calls
p99: of a call, with its delays and its time in line; Jain: Jain's fairness index of the clients' successful calls
90 % after: when five seconds begin that reach 90 % of the limit, or the length of the run`
