package schedule

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// evenTicks is the largest number of whole numbers to mark, in even steps.
type evenTicks int

// Ticks implements plot.Ticker.
func (most evenTicks) Ticks(low, high float64) []plot.Tick {
	step := 1.0
	for (high-low)/step > float64(most) {
		// The steps are 1, 2, 5, 10, 20, …
		if power := math.Pow(10, math.Floor(math.Log10(step)+1e-9)); step/power < 1.5 {
			step = 2 * power
		} else if step/power < 3 {
			step = 5 * power
		} else {
			step = 10 * power
		}
	}
	var ticks []plot.Tick
	if step > 1 && low == 1 {
		ticks = append(ticks, plot.Tick{Value: 1, Label: "1"})
	}
	for value := math.Ceil(low/step) * step; value <= high; value += step {
		ticks = append(ticks, plot.Tick{Value: value, Label: strconv.FormatFloat(value, 'f', -1, 64)})
	}
	return ticks
}
