package statuspage

import "math"

// The chart of a minute, in the units of its viewBox. Attempts grow upward from
// the base line, and refusals downward.
const (
	column = 10 // of a second
	gap    = 2  // between two columns
	high   = 90
	least  = 2 // of what is not 0
)

// A chart has the rectangles of a minute.
type chart struct {
	Bars []bar
	Line float64 // where the base line is
	Most uint32  // attempts in the busiest second
}

type bar struct {
	Class               string
	X, Y, Width, Height float64
}

// Chart returns the chart of the minute.
func (m minute) Chart() (c chart) {
	var down uint32
	for i := range m.PerSecond.Attempts {
		c.Most, down = max(c.Most, m.PerSecond.Attempts[i]), max(down, m.PerSecond.Refusals[i])
	}
	scale := high / math.Max(float64(c.Most)+float64(down), 1)
	height := func(n uint32) float64 {
		if n == 0 {
			return 0
		}
		return max(float64(n)*scale, least)
	}
	c.Line = round(high - float64(down)*scale)
	for i := range m.PerSecond.Attempts {
		all, retries := m.PerSecond.Attempts[i], m.PerSecond.Retries[i]
		first, again, refused := height(all-retries), height(retries), height(m.PerSecond.Refusals[i])
		for _, b := range []bar{
			{Class: "first", Y: c.Line - first, Height: first},
			{Class: "retry", Y: c.Line - first - again, Height: again},
			{Class: "refused", Y: c.Line, Height: refused},
		} {
			if b.Height > 0 {
				b.X, b.Y, b.Width, b.Height = float64(i*column), round(b.Y), column-gap, round(b.Height)
				c.Bars = append(c.Bars, b)
			}
		}
	}
	return c
}

func round(x float64) float64 { return math.Round(100*x) / 100 }
