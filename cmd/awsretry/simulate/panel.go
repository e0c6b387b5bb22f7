package simulate

import (
	"fmt"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// drawHead writes what is simulated, and what the colours mean.
func (r *Result) drawHead(c draw.Canvas) {
	x, y := c.Min.X+margin+vg.Points(4), c.Max.Y-margin-vg.Points(12)
	lines := r.Scenario.summary()
	title := textStyle(inkText, 13, true)
	c.FillText(title, vg.Point{X: x, Y: y}, lines[0])
	y -= vg.Points(16)
	small := textStyle(inkText, 9, false)
	c.FillText(small, vg.Point{X: x, Y: y}, lines[1])
	y -= vg.Points(13)
	events := ""
	for _, e := range lines[2:] {
		if events != "" {
			events += ";  "
		}
		events += e
	}
	c.FillText(small, vg.Point{X: x, Y: y}, events)
	y -= vg.Points(19)
	for _, key := range []struct {
		name  string
		style draw.LineStyle
	}{
		{"attempts sent (offered load)", stroke(inkAttempts, 2)},
		{"calls that succeed (goodput)", stroke(inkGood, 2.4)},
		{"what the service can serve", dashed(inkServes, 1.2)},
	} {
		middle := y + vg.Points(3)
		c.StrokeLine2(key.style, x, middle, x+vg.Points(22), middle)
		c.FillText(small, vg.Point{X: x + vg.Points(27), Y: y}, key.name)
		x += vg.Points(27) + small.Width(key.name) + vg.Points(18)
	}
	box := vg.Rectangle{Min: vg.Point{X: x, Y: y - vg.Points(1)}, Max: vg.Point{X: x + vg.Points(22), Y: y + vg.Points(8)}}
	c.SetColor(inkEvent)
	c.Fill(box.Path())
	c.FillText(small, vg.Point{X: x + vg.Points(27), Y: y}, "event")
}

// drawPanel draws one quantity of one setting: the curves in c, the axes' numbers and the title around it.
func (r *Result) drawPanel(c draw.Canvas, col column, position int, o Outcome, last bool) {
	if position == 0 {
		name, aside := textStyle(inkText, 10, true), textStyle(inkAside, 9, false)
		above := c.Max.Y + vg.Points(4)
		c.FillText(name, vg.Point{X: c.Min.X, Y: above}, o.Setting)
		c.FillText(aside, vg.Point{X: c.Min.X + name.Width(o.Setting) + vg.Points(10), Y: above}, figures(o))
	}
	lines := col.lines(o)
	if lines == nil {
		faint := textStyle(inkAside, 9, false)
		faint.XAlign, faint.YAlign = text.XCenter, text.YCenter
		c.FillText(faint, c.Center(), col.none)
		return
	}
	p := plot.New()
	p.BackgroundColor = nil
	end := time.Duration(r.Scenario.Duration).Seconds()
	p.X.Padding, p.Y.Padding = 0, 0
	p.X.Tick.Marker = timeTicks{end, last}
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
		p.X.Label.Text = "virtual time (" + timeUnit(end).name + ")"
		p.X.Label.TextStyle = textStyle(inkText, 8.5, false)
		p.X.Label.TextStyle.XAlign, p.X.Label.TextStyle.YAlign = text.XCenter, text.YBottom
	}
	p.Add(eventBands{r.Scenario.Events})
	grid := plotter.NewGrid()
	grid.Vertical, grid.Horizontal = draw.LineStyle{}, stroke(inkGrid, 0.5)
	p.Add(grid)
	for _, l := range lines {
		for _, points := range l.points {
			p.Add(&plotter.Line{XYs: points, LineStyle: l.style})
		}
	}
	p.X.Min, p.X.Max = 0, end // after Add, which would make room for everything
	p.Y.Min, p.Y.Max = 0, orElse(col.max, 1)*1.06
	data := c.Rectangle
	c.Rectangle = around(p, data)
	p.Draw(c)
	for _, l := range lines {
		if at, peak := l.peak(); peak > p.Y.Max {
			style := textStyle(l.style.Color, 8, false)
			style.YAlign = text.YTop
			x := data.Min.X + vg.Length(at/p.X.Max)*data.Size().X + vg.Points(5)
			if x > data.Max.X-vg.Points(60) {
				x -= vg.Points(10)
				style.XAlign = text.XRight
			}
			c.FillText(style, vg.Point{X: x, Y: data.Max.Y}, "up to "+number(peak))
		}
	}
}

// around returns the rectangle in which p draws its curves just in data, whatever room its numbers and titles take: so the
// panels of a column stand one above the other.
func around(p *plot.Plot, data vg.Rectangle) vg.Rectangle {
	outer := data
	for range 3 { // the room that p takes depends a little on the size, for numbers that hang over the ends of an axis
		got := p.DataCanvas(draw.Canvas{Rectangle: outer}).Rectangle
		outer.Min = outer.Min.Add(data.Min.Sub(got.Min))
		outer.Max = outer.Max.Add(data.Max.Sub(got.Max))
	}
	return outer
}

// figures are the setting's most telling numbers.
func figures(o Outcome) string {
	return fmt.Sprintf("%.2f attempts a call, %s failed, p99 %s", o.Amplification, percent(o.FailedShare), latency(o.P99, o.Good))
}

// eventBands shades the time of each event. A herd's instant, too short to see, is drawn as a line.
type eventBands struct{ events []Event }

func (b eventBands) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	for _, e := range b.events {
		from, to := x(time.Duration(e.From).Seconds()), x(time.Duration(e.To).Seconds())
		to = max(to, from+vg.Points(1.5))
		band := vg.Rectangle{Min: vg.Point{X: from, Y: c.Min.Y}, Max: vg.Point{X: to, Y: c.Max.Y}}
		c.SetColor(inkEvent)
		c.Fill(band.Path())
	}
}

// A unit of time on an axis.
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
	for v := 0.0; v <= t.max/unit.seconds*(1+1e-9); v += step {
		label := ""
		if t.labels {
			label = fmt.Sprintf("%g", v)
		}
		ticks = append(ticks, plot.Tick{Value: v * unit.seconds, Label: label})
	}
	return ticks
}

// numberTicks marks round numbers.
type numberTicks struct{}

func (numberTicks) Ticks(_, most float64) []plot.Tick {
	step := roundStep(most / 4)
	var ticks []plot.Tick
	for i := 0; float64(i)*step <= most; i++ {
		ticks = append(ticks, plot.Tick{Value: float64(i) * step, Label: number(float64(i) * step)})
	}
	return ticks
}

// roundStep is the least of 1, 2 and 5 times a power of ten that is not below v.
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
