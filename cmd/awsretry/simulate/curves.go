package simulate

import (
	"slices"
	"time"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"example.com/awsretry/cmd/awsretry/simulate/scenario"
)

// A column is one quantity, drawn for every setting with the same scale.
type column struct {
	title string
	width vg.Length
	max   float64
	none  string                 // for the panel of a setting that has no such quantity
	lines func(o Outcome) []line // none: the setting has no such quantity
}

// A line is a curve, possibly with gaps.
type line struct {
	points []plotter.XYs
	style  draw.LineStyle
}

// columns returns what the picture shows.
func (r *Result) columns() []column {
	script := newScript(r.Scenario)
	joins := r.Scenario.Joining() > 0
	load := column{title: "offered load and goodput (1/s)", width: loadWidth}
	load.lines = func(o Outcome) []line {
		lines := []line{
			{[]plotter.XYs{script.capacityLine(r.Scenario)}, dashed(inkServes, 0.9)},
			{[]plotter.XYs{perSecond(o.Series.Attempts)}, stroke(inkAttempts, 1.1)},
			{[]plotter.XYs{perSecond(o.Series.Good)}, stroke(inkGood, 1.7)},
		}
		if joins {
			lines = append(lines, line{limitedParts(ofAll(o.Series.SendRate)), stroke(inkSendRate, 1.1)})
		}
		return lines
	}
	tokens := column{title: "retry tokens (mean of the clients)", width: bucketWidth, none: "no retry token bucket"}
	tokens.lines = func(o Outcome) []line {
		if o.Series.Tokens == nil {
			return nil
		}
		return []line{{[]plotter.XYs{samples(o.Series.Tokens)}, stroke(inkTokens, 1.6)}}
	}
	rate := column{title: "send rate (1/s, mean of limited clients)", width: bucketWidth, none: "no rate limiter"}
	rate.lines = func(o Outcome) []line {
		if o.Series.SendRate == nil {
			return nil
		}
		return []line{{limitedParts(o.Series.SendRate), stroke(inkSendRate, 1.6)}}
	}
	load = load.scaled(r.Outcomes)
	// A peak far above what the service can serve would flatten everything
	// else. It is cut off and labeled.
	most := 0.0
	for _, g := range script {
		most = max(most, g.serves())
	}
	if most > 0 {
		load.max = min(load.max, 4*most)
	}
	columns := []column{load}
	bucket := tokens
	if joins {
		bucket = r.joinColumn()
	}
	for _, c := range []column{bucket, rate} {
		if c = c.scaled(r.Outcomes); c.max > 0 {
			columns = append(columns, c)
		}
	}
	return columns
}

// joinColumn shows, in place of the tokens, how many clients there are and what
// is throttled while they join.
func (r *Result) joinColumn() column {
	c := column{title: "clients, and throttled attempts (1/s)", width: bucketWidth}
	c.lines = func(o Outcome) []line {
		return []line{
			{[]plotter.XYs{clientLine(r.Scenario)}, stroke(inkFaint, 1.1)},
			{[]plotter.XYs{samples(o.Series.Members)}, stroke(inkTokens, 1.6)},
			{[]plotter.XYs{perSecond(o.Series.Throttled)}, stroke(inkAttempts, 1.1)},
		}
	}
	return c
}

// clientLine returns how many clients there are over time.
func clientLine(s scenario.Scenario) plotter.XYs {
	there := s.Clients.Count - s.Joining()
	points := plotter.XYs{{X: 0, Y: float64(there)}}
	for _, at := range s.Begins()[there:] {
		points = append(points, plotter.XY{X: at.Seconds(), Y: float64(there)})
		there++
		points = append(points, plotter.XY{X: at.Seconds(), Y: float64(there)})
	}
	return append(points, plotter.XY{X: time.Duration(s.Duration).Seconds(), Y: float64(there)})
}

// scaled returns the column with the scale for the outcomes, or 0 if none has
// anything to draw in it.
func (c column) scaled(outcomes []Outcome) column {
	for _, o := range outcomes {
		for _, l := range c.lines(o) {
			_, peak := l.peak()
			c.max = max(c.max, peak)
		}
	}
	return c
}

// peak returns the highest point of the line.
func (l line) peak() (x, y float64) {
	for _, part := range l.points {
		for _, p := range part {
			if p.Y > y {
				x, y = p.X, p.Y
			}
		}
	}
	return x, y
}

// perSecond puts each second's value at the middle of the second.
func perSecond(values []float64) plotter.XYs {
	points := make(plotter.XYs, len(values))
	for i, v := range values {
		points[i] = plotter.XY{X: float64(i) + 0.5, Y: v}
	}
	return points
}

func samples(values []Sample) plotter.XYs {
	points := make(plotter.XYs, len(values))
	for i, v := range values {
		points[i] = plotter.XY{X: time.Duration(v.At).Seconds(), Y: v.Value}
	}
	return points
}

// ofAll returns the sum over the limited clients for their mean.
func ofAll(means []Sample) []Sample {
	sums := slices.Clone(means)
	for i := range sums {
		sums[i].Value *= float64(sums[i].Limited)
	}
	return sums
}

// limitedParts returns the samples without those that have no limited client.
func limitedParts(values []Sample) []plotter.XYs {
	var parts []plotter.XYs
	for i := 0; i < len(values); i++ {
		from := i
		for i < len(values) && values[i].Limited > 0 {
			i++
		}
		if i > from {
			parts = append(parts, samples(values[from:i]))
		}
	}
	return parts
}

// capacityLine returns what the service can serve over time.
func (s script) capacityLine(sc scenario.Scenario) plotter.XYs {
	end := time.Duration(sc.Duration)
	var points plotter.XYs
	for i, g := range s {
		if g.from >= end {
			break
		}
		until := end
		if i+1 < len(s) {
			until = min(s[i+1].from, end)
		}
		serves := g.serves()
		points = append(points, plotter.XY{X: g.from.Seconds(), Y: serves}, plotter.XY{X: until.Seconds(), Y: serves})
	}
	return points
}
