package chart

import (
	"math"

	"gonum.org/v1/plot"

	"example.com/awsretry/simulate/internal/format"
)

// A timescale is the unit of time on an axis.
type timescale struct {
	name    string
	seconds float64
}

func timeUnit(seconds float64) timescale {
	switch {
	case seconds > 3*3600:
		return timescale{"h", 3600}
	case seconds > 150:
		return timescale{"min", 60}
	}
	return timescale{"s", 1}
}

// timeTicks marks round times.
type timeTicks struct {
	max    float64
	labels bool
}

func (t timeTicks) Ticks(_, _ float64) []plot.Tick {
	unit := timeUnit(t.max)
	step := roundStep(t.max / unit.seconds / 8)
	if unit.seconds > 1 {
		step = max(step, 0.5)
	}
	var ticks []plot.Tick
	for i := 0; ; i++ {
		v := float64(i) * step
		if v > t.max/unit.seconds*(1+1e-9) {
			return ticks
		}
		label := ""
		if t.labels {
			label = format.Number(v)
		}
		ticks = append(ticks, plot.Tick{Value: v * unit.seconds, Label: label})
	}
}

// numberTicks marks round numbers.
type numberTicks struct{}

func (numberTicks) Ticks(_, most float64) []plot.Tick {
	step := roundStep(most / 4)
	label := format.Number
	if step >= 1e5 { // there is no room for seven digits
		label = func(v float64) string { return format.Number(v/1e6) + "M" }
	}
	var ticks []plot.Tick
	for i := 0; float64(i)*step <= most; i++ {
		ticks = append(ticks, plot.Tick{Value: float64(i) * step, Label: label(float64(i) * step)})
	}
	return ticks
}

// roundStep returns the least of 1, 2 and 5 times a power of ten that is at
// least v.
func roundStep(v float64) float64 {
	if !(v > 0) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v {
			return m * power
		}
	}
	return 10 * power
}
