package main

import (
	"math"
	"time"

	"example.com/awsretry/bench/internal/modeled"
	"example.com/awsretry/bench/internal/output"
	"example.com/awsretry/simulate"
)

// loopColumns are rates per second, and shares.
var loopColumns = []modeled.Column{
	perSecond("attempts/s", func(s simulate.Series) []float64 { return s.Attempts }),
	modeled.Refused,
	perSecond("calls succeeded/s", func(s simulate.Series) []float64 { return s.Good }),
	perSecond("calls failed/s", func(s simulate.Series) []float64 { return s.Bad }),
	{Name: "attempts per success", Of: perSuccess, Show: output.Number("%.1f")},
}

func perSecond(name string, series func(simulate.Series) []float64) modeled.Column {
	return modeled.Column{Name: name, Show: output.Number("%.0f"), Of: func(r modeled.Run) float64 {
		measured := time.Duration(r.Case.Scenario.Duration) - r.Case.From
		return r.Since(series(r.Outcome.Series)) / measured.Seconds()
	}}
}

// perSuccess is NaN if no call succeeds.
func perSuccess(r modeled.Run) float64 {
	if good := r.Since(r.Outcome.Series.Good); good > 0 {
		return r.Since(r.Outcome.Series.Attempts) / good
	}
	return math.NaN()
}
