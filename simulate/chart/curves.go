package chart

import (
	"fmt"
	"slices"
	"time"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

// A group is the panels of one quantity, with the same scale.
type group struct {
	title  string
	height vg.Length // of a panel
	max    float64
	blank  string                          // for the panel of a setting that has no curve
	lines  func(o simulate.Outcome) []line // nil: the setting has no such quantity
	of     []simulate.Outcome              // those that have it
}

// A line is a curve, possibly with gaps.
type line struct {
	name   string
	points []plotter.XYs
	style  draw.LineStyle
}

// shown returns the groups that the picture shows.
func (p *picture) shown() []group {
	serves := simulate.ServesOverTime(p.Scenario)
	joins := joins(p.Scenario)
	load := group{title: p.mean("offered load and goodput (1/s)"), height: loadHeight, blank: "no calls"}
	load.lines = func(o simulate.Outcome) []line {
		if o.Calls == 0 {
			return []line{}
		}
		lines := []line{
			curve("capacity", p.steps(serves), capacityStyle),
			curve("attempts", p.perSecond(o.Series.Attempts), stroke(inkAttempts, 1.1)),
			curve("goodput", p.perSecond(o.Series.Good), stroke(inkGood, 1.7)),
		}
		if joins {
			lines = append(lines, line{"send rate", limitedParts(ofAll(o.Series.SendRate)), sendRateStyle})
		}
		return lines
	}
	load = load.scaled(p.Outcomes)
	// A peak far above what the service can serve would flatten everything
	// else. It is cut off and labeled.
	if most := simulate.Most(serves); most > 0 {
		load.max = min(load.max, 4*most)
	}
	bucket := group{title: "retry tokens (mean of the clients)", height: bucketHeight, blank: "no sample"}
	bucket.lines = func(o simulate.Outcome) []line {
		if o.Series.Tokens == nil {
			return nil
		}
		return []line{curve("tokens", samples(o.Series.Tokens), stroke(inkTokens, 1.6))}
	}
	if joins { // how many clients there are, and what is throttled while they join
		bucket = group{title: p.mean("clients, and throttled attempts (1/s)"), height: bucketHeight}
		bucket.lines = func(o simulate.Outcome) []line {
			return []line{
				curve("clients", p.steps(p.Scenario.ClientsOverTime()), stroke(inkFaint, 1.1)),
				curve("leases", samples(o.Series.Members), stroke(inkTokens, 1.6)),
				curve("throttled", p.perSecond(o.Series.Throttled), stroke(inkAttempts, 1.1)),
			}
		}
	}
	rate := group{title: "send rate (1/s, mean of limited clients)", height: bucketHeight, blank: "never limited"}
	rate.lines = func(o simulate.Outcome) []line {
		if o.Series.SendRate == nil {
			return nil
		}
		return []line{{"send rate", limitedParts(o.Series.SendRate), sendRateStyle}}
	}
	groups := []group{load}
	for _, g := range []group{bucket, rate} {
		if g = g.scaled(p.Outcomes); g.max > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// curve returns a line without gaps.
func curve(name string, points plotter.XYs, style draw.LineStyle) line {
	return line{name, []plotter.XYs{points}, style}
}

// steps returns the curve of levels, up to the end of the run.
func (p *picture) steps(levels []scenario.Level) plotter.XYs {
	var points plotter.XYs
	for i, level := range levels {
		until := time.Duration(p.Scenario.Duration)
		if i+1 < len(levels) {
			until = levels[i+1].From
		}
		points = append(points,
			plotter.XY{X: level.From.Seconds(), Y: level.Value}, plotter.XY{X: until.Seconds(), Y: level.Value})
	}
	return points
}

// joins reports whether clients join.
func joins(s scenario.Scenario) bool { return len(s.ClientsOverTime()) > 1 }

// scaled returns the group with the outcomes that have its quantity, and their
// scale, which is 0 if there is nothing to draw.
func (g group) scaled(outcomes []simulate.Outcome) group {
	for _, o := range outcomes {
		lines := g.lines(o)
		if lines != nil {
			g.of = append(g.of, o)
		}
		for _, l := range lines {
			_, peak := l.peak()
			g.max = max(g.max, peak)
		}
	}
	return g
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

// visible reports whether the line has anything to draw.
func (l line) visible() bool {
	return slices.ContainsFunc(l.points, func(part plotter.XYs) bool { return len(part) > 0 })
}

// perSecond puts each second's value in the middle of the second, or the mean of
// several seconds in their middle.
func (p *picture) perSecond(values []float64) plotter.XYs {
	points := make(plotter.XYs, 0, len(values))
	means, middles := simulate.Means(values, p.every)
	for i, v := range means {
		points = append(points, plotter.XY{X: middles[i], Y: v})
	}
	return drawable(points)
}

// mean adds to a title which mean a point is.
func (p *picture) mean(title string) string {
	if p.every == 1 {
		return title
	}
	return fmt.Sprintf("%s, means of %ds", title, p.every)
}

// drawable returns points that make a line. A single one becomes a line of a
// second.
func drawable(points plotter.XYs) plotter.XYs {
	if len(points) != 1 {
		return points
	}
	at := points[0]
	return plotter.XYs{{X: at.X - 0.5, Y: at.Y}, {X: at.X + 0.5, Y: at.Y}}
}

func samples(values []simulate.Sample) plotter.XYs {
	points := make(plotter.XYs, len(values))
	for i, v := range values {
		points[i] = plotter.XY{X: time.Duration(v.At).Seconds(), Y: v.Value}
	}
	return drawable(points)
}

// ofAll returns the sums over the limited clients, from their means.
func ofAll(means []simulate.Sample) []simulate.Sample {
	sums := slices.Clone(means)
	for i := range sums {
		sums[i].Value *= float64(sums[i].Limited)
	}
	return sums
}

// limitedParts returns the samples without those that have no limited client.
func limitedParts(values []simulate.Sample) []plotter.XYs {
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
