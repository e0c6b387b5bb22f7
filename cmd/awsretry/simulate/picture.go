package simulate

import (
	"fmt"
	"image/color"
	"io"
	"time"

	imagefont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Formats of [Result.Draw].
const (
	SVG = "svg"
	PNG = "png"
)

// The colours are of Okabe and Ito's palette, which colour-blind readers can tell apart; no two lines of a panel differ in their
// colour alone.
var (
	inkAttempts = color.RGBA{0xd5, 0x5e, 0x00, 0xff} // vermillion
	inkGood     = color.RGBA{0x00, 0x72, 0xb2, 0xff} // blue
	inkTokens   = color.RGBA{0x00, 0x9e, 0x73, 0xff} // bluish green
	inkSendRate = color.RGBA{0xcc, 0x79, 0xa7, 0xff} // reddish purple
	inkServes   = color.RGBA{0x33, 0x33, 0x33, 0xff}
	inkText     = color.RGBA{0x22, 0x22, 0x22, 0xff}
	inkAside    = color.RGBA{0x66, 0x66, 0x66, 0xff}
	inkFaint    = color.RGBA{0x88, 0x88, 0x88, 0xff}
	inkGrid     = color.RGBA{0xe4, 0xe4, 0xe4, 0xff}
	inkEvent    = color.RGBA{0xf1, 0xec, 0xdf, 0xff} // light sand, behind everything
)

// Lengths.
const (
	loadWidth   = 5.2 * vg.Inch
	bucketWidth = 3.3 * vg.Inch
	panelHeight = 1.25 * vg.Inch
	headHeight  = 1.36 * vg.Inch // the columns' titles included
	footHeight  = 0.42 * vg.Inch
	margin      = 0.18 * vg.Inch
	axisWidth   = 0.52 * vg.Inch // of the numbers on the left of a panel
	gap         = 0.2 * vg.Inch  // between panels, and above each for its title
	pngDPI      = 144
)

// A column is one quantity, drawn for every setting with the same scale.
type column struct {
	title string
	width vg.Length
	max   float64
	none  string                 // stands in the panel of a setting that has no such thing
	lines func(o Outcome) []line // none: the setting has no such thing
}

// A line is a curve. A break in it is a place where there is nothing to show.
type line struct {
	points []plotter.XYs
	style  draw.LineStyle
}

// Draw writes a picture of the outcomes over time, the settings one above the other: the load that the service is offered and the goodput,
// and, where some setting has them, the tokens in the retry bucket and the send rate. The format is [SVG] or [PNG].
func (r *Result) Draw(w io.Writer, format string) error {
	columns := r.columns()
	width := 2 * margin
	for _, c := range columns {
		width += axisWidth + c.width + gap
	}
	height := 2*margin + headHeight + footHeight + vg.Length(len(r.Outcomes))*(panelHeight+gap)

	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	}
	switch format {
	case SVG:
		canvas = vgsvg.New(width, height)
	case PNG:
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(pngDPI))}
	default:
		return fmt.Errorf("simulate: the picture's format is %s; it must be svg or png", clipped(format))
	}
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	r.drawHead(c)
	left := c.Min.X + margin
	for _, col := range columns {
		c.FillText(textStyle(inkText, 9.5, false), vg.Point{X: left + axisWidth, Y: c.Max.Y - margin - headHeight + vg.Points(8)}, col.title)
		left += axisWidth + col.width + gap
	}
	for i, o := range r.Outcomes {
		left := c.Min.X + margin
		top := c.Max.Y - margin - headHeight - vg.Length(i)*(panelHeight+gap)
		for n, col := range columns {
			data := vg.Rectangle{
				Min: vg.Point{X: left + axisWidth, Y: top - panelHeight},
				Max: vg.Point{X: left + axisWidth + col.width, Y: top - gap},
			}
			r.drawPanel(draw.Canvas{Canvas: c.Canvas, Rectangle: data}, col, n, o, i == len(r.Outcomes)-1)
			left = data.Max.X + gap
		}
	}
	_, err := canvas.WriteTo(w)
	return err
}

// columns returns what is to be drawn.
func (r *Result) columns() []column {
	script := newScript(r.Scenario)
	load := column{title: "offered load and goodput (1/s)", width: loadWidth, lines: func(o Outcome) []line {
		return []line{
			{[]plotter.XYs{script.capacityLine(r.Scenario)}, dashed(inkServes, 0.9)},
			{[]plotter.XYs{perSecond(o.Series.Attempts)}, stroke(inkAttempts, 1.1)},
			{[]plotter.XYs{perSecond(o.Series.Good)}, stroke(inkGood, 1.7)},
		}
	}}
	tokens := column{title: "retry tokens (mean of the clients)", width: bucketWidth, none: "no retry token bucket", lines: func(o Outcome) []line {
		if o.Series.Tokens == nil {
			return nil
		}
		return []line{{[]plotter.XYs{samples(o.Series.Tokens)}, stroke(inkTokens, 1.6)}}
	}}
	rate := column{title: "send rate (1/s, mean of limited clients)", width: bucketWidth, none: "no rate limiter", lines: func(o Outcome) []line {
		if o.Series.SendRate == nil {
			return nil
		}
		return []line{{limitedParts(o.Series.SendRate), stroke(inkSendRate, 1.6)}}
	}}
	columns := []column{load.scaled(r.Outcomes)}
	// A peak far above what the service can serve would press everything else to the bottom: it is cut, and written there.
	most := 0.0
	for _, g := range script {
		most = max(most, script.serves(g.from))
	}
	if most > 0 {
		columns[0].max = min(columns[0].max, 4*most)
	}
	for _, c := range []column{tokens, rate} {
		if c = c.scaled(r.Outcomes); c.max > 0 {
			columns = append(columns, c)
		}
	}
	return columns
}

// scaled returns the column with the scale that the outcomes need, 0 where none has anything to draw in it.
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

// limitedParts leaves out the samples without a limited client.
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

// capacityLine is what the service can serve over time.
func (s script) capacityLine(sc Scenario) plotter.XYs {
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
		serves := s.serves(g.from)
		points = append(points, plotter.XY{X: g.from.Seconds(), Y: serves}, plotter.XY{X: until.Seconds(), Y: serves})
	}
	return points
}

func stroke(ink color.Color, width vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: ink, Width: vg.Points(float64(width))}
}

func dashed(ink color.Color, width vg.Length) draw.LineStyle {
	style := stroke(ink, width)
	style.Dashes = []vg.Length{vg.Points(3), vg.Points(2.5)}
	return style
}

func textStyle(ink color.Color, size float64, bold bool) draw.TextStyle {
	f := font.From(plot.DefaultFont, vg.Points(size))
	f.Variant = "Sans"
	if bold {
		f.Weight = imagefont.WeightBold
	}
	return draw.TextStyle{Color: ink, Font: f, Handler: plot.DefaultTextHandler}
}
