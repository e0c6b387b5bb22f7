package chart

import (
	"cmp"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/internal/format"
	"example.com/awsretry/simulate/scenario"
)

// drawPanel draws one quantity of one setting: the curves in c, and the axes'
// numbers and titles around it.
func (p *picture) drawPanel(c draw.Canvas, g group, o simulate.Outcome, last bool) {
	lines := g.lines(o)
	if !slices.ContainsFunc(lines, line.visible) {
		faint := textStyle(inkAside, 9, false)
		faint.XAlign, faint.YAlign = text.XCenter, text.YCenter
		c.FillText(faint, c.Center(), g.blank)
	}
	axes := newAxes(time.Duration(p.Scenario.Duration).Seconds(), last)
	axes.Add(eventBands{p.Scenario.Events})
	grid := plotter.NewGrid()
	grid.Vertical, grid.Horizontal = draw.LineStyle{}, stroke(inkGrid, 0.5)
	axes.Add(grid)
	for _, l := range lines {
		for _, points := range l.points {
			axes.Add(&plotter.Line{XYs: points, LineStyle: l.style})
		}
	}
	// After Add, which would widen the axes for all of it.
	axes.X.Min, axes.X.Max = 0, time.Duration(p.Scenario.Duration).Seconds()
	axes.Y.Min, axes.Y.Max = 0, cmp.Or(g.max, 1)*1.06
	axes.Draw(draw.Canvas{Canvas: c.Canvas, Rectangle: around(axes, c.Rectangle)})
	for _, l := range lines {
		if at, peak := l.peak(); peak > axes.Y.Max {
			labelPeak(c, l, at/axes.X.Max, peak)
			c.Max.Y -= vg.Points(11) // for the next line's
		}
	}
}

// newAxes returns a plot without curves over that many seconds. The last panel of a
// group has the numbers on the time axis.
func newAxes(seconds float64, last bool) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Padding, p.Y.Padding = 0, 0
	p.X.Tick.Marker = timeTicks{seconds, last}
	p.Y.Tick.Marker = numberTicks{}
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Tick.Label = textStyle(inkText, 8, false)
		axis.Tick.Length = vg.Points(3)
		axis.LineStyle = stroke(inkFaint, 0.6)
		axis.Tick.LineStyle = stroke(inkFaint, 0.6)
	}
	p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = text.XCenter, text.YTop
	p.Y.Tick.Label.XAlign, p.Y.Tick.Label.YAlign = text.XRight, text.YCenter
	if last {
		p.X.Label.Text = "virtual time (" + timeUnit(seconds).name + ")"
		p.X.Label.TextStyle = textStyle(inkText, 8.5, false)
		p.X.Label.TextStyle.XAlign, p.X.Label.TextStyle.YAlign = text.XCenter, text.YBottom
	}
	return p
}

// around returns the rectangle in which p draws its curves exactly in data,
// whatever room its numbers and titles take, so that all panels are
// aligned.
func around(p *plot.Plot, data vg.Rectangle) vg.Rectangle {
	outer := data
	for range 3 { // the room depends a little on the size, because of numbers at the ends of an axis
		got := p.DataCanvas(draw.Canvas{Rectangle: outer}).Rectangle
		outer.Min = outer.Min.Add(data.Min.Sub(got.Min))
		outer.Max = outer.Max.Add(data.Max.Sub(got.Max))
	}
	return outer
}

// labelPeak writes the height of a peak that is cut off. x is its position, from 0
// to 1.
func labelPeak(c draw.Canvas, l line, x, peak float64) {
	style := textStyle(inkText, 8, false)
	style.YAlign = text.YTop
	label := l.name + " up to " + format.Number(peak)
	at := c.Min.X + vg.Length(x)*c.Size().X + vg.Points(5)
	if at+widthOf(style, label) > c.Max.X {
		at -= vg.Points(10)
		style.XAlign = text.XRight
	}
	c.FillText(style, vg.Point{X: at, Y: c.Max.Y}, label)
}

// eventBands shades the time of each event. The time of a herd may be too short
// to see, and is drawn wider.
type eventBands struct{ events []scenario.Event }

func (b eventBands) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	for _, e := range b.events {
		from, to := x(time.Duration(e.From).Seconds()), x(time.Duration(e.To).Seconds())
		to = min(max(to, from+vg.Points(1.5)), c.Max.X)
		from = max(min(from, to-vg.Points(1.5)), c.Min.X)
		band := vg.Rectangle{Min: vg.Point{X: from, Y: c.Min.Y}, Max: vg.Point{X: to, Y: c.Max.Y}}
		c.SetColor(inkEvent)
		c.Fill(band.Path())
	}
}
