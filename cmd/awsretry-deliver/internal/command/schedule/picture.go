package schedule

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/dustin/go-humanize/english"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"example.com/awsretry/delivery"
	"example.com/awsretry/simulate/svgfile"
)

const (
	pictureWidth  = 8 * vg.Inch
	pictureHeight = 4.5 * vg.Inch
	textSize      = 12
)

// A picture draws the pauses of a plan against the number of the retry.
type picture struct {
	plan   *plan
	series []*series
}

func newPicture(p *plan) *picture {
	pic := &picture{plan: p}
	if len(p.functions) > 1 {
		pic.compare()
	} else {
		pic.single()
	}
	return pic
}

// each calls f for every retry that is shown.
func (pic *picture) each(f func(x float64, r *run)) {
	for i := range pic.plan.runs {
		r := &pic.plan.runs[i]
		for n := r.first; n <= r.last; n++ {
			f(float64(n), r)
		}
	}
}

// single shows one function: one line, with a series for each phase.
func (pic *picture) single() {
	path := &series{line: draw.LineStyle{Color: gray, Width: vg.Points(1)}}
	pic.series = append(pic.series, path)
	retry := pic.plan.file.Policy.HealthyRetryPolicy
	phases := map[string]*series{
		immediate:   newSeries(immediate, green, draw.PyramidGlyph{}),
		preBackoff:  newSeries(preBackoff, vermillion, draw.BoxGlyph{}),
		backoff:     newSeries(backoff+", "+string(retry.BackoffFunction), blue, draw.CircleGlyph{}),
		postBackoff: newSeries(postBackoff, purple, diamond{}),
	}
	for _, phase := range pic.plan.phases {
		phases[phase.name].line.Width = 0
		pic.series = append(pic.series, phases[phase.name])
	}
	pic.each(func(x float64, r *run) {
		at := plotter.XY{X: x, Y: r.pauses[0].Seconds()}
		path.points = append(path.points, at)
		phases[r.phase].points = append(phases[r.phase].points, at)
	})
}

// compare shows all functions. It shows the phases that are the same for all of
// them once.
func (pic *picture) compare() {
	styles := map[delivery.BackoffFunction]*series{
		delivery.Linear:      newSeries("linear", blue, draw.CircleGlyph{}),
		delivery.Arithmetic:  newSeries("arithmetic", vermillion, draw.PyramidGlyph{}),
		delivery.Geometric:   newSeries("geometric", green, draw.BoxGlyph{}),
		delivery.Exponential: newSeries("exponential", purple, diamond{}),
	}
	common := newSeries("other phases", gray, draw.CircleGlyph{})
	common.line.Width, common.glyph.Radius = 0, vg.Points(2.5)
	pic.each(func(x float64, r *run) {
		if r.phase != backoff {
			common.points = append(common.points, plotter.XY{X: x, Y: r.pauses[0].Seconds()})
			return
		}
		for i, f := range pic.plan.functions {
			styles[f].points = append(styles[f].points, plotter.XY{X: x, Y: r.pauses[i].Seconds()})
		}
	})
	for _, f := range pic.plan.functions {
		if len(styles[f].points) > 0 {
			pic.series = append(pic.series, styles[f])
		}
	}
	if len(common.points) > 0 {
		pic.series = append(pic.series, common)
	}
}

// text describes the picture.
func (pic *picture) text() svgfile.Text {
	text := svgfile.Text{Title: pic.title(), Description: "Pauses in seconds by the number of the retry."}
	for _, s := range pic.series {
		if n := len(s.points); s.name != "" && n > 0 {
			first, last := s.points[0], s.points[n-1]
			text.Description += fmt.Sprintf(" %s: %v before retry %v to %v before retry %v.", s.name, first.Y, first.X, last.Y, last.X)
		}
	}
	return text
}

func (pic *picture) title() string {
	if pic.plan.retries() == 0 {
		return "A delivery policy without retries"
	}
	shortest, longest := time.Duration(math.MaxInt64), time.Duration(0)
	for _, run := range pic.plan.runs {
		for _, pause := range run.pauses {
			if pause > 0 {
				shortest = min(shortest, pause)
			}
			longest = max(longest, pause)
		}
	}
	title := "A delivery policy of " + english.Plural(pic.plan.retries(), "retry", "")
	switch {
	case longest == 0:
		return title + ", at once"
	case shortest == longest:
		return title + fmt.Sprintf(", %g s apart", longest.Seconds())
	}
	return title + fmt.Sprintf(", %g s to %g s apart", shortest.Seconds(), longest.Seconds())
}

// draw draws onto a canvas of pictureWidth and pictureHeight.
func (pic *picture) draw(canvas vg.CanvasSizer) {
	style := text.Style{
		Color:   ink,
		Font:    font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(textSize)},
		Handler: plot.DefaultTextHandler,
	}
	p := plot.New()
	highest := 0.0
	for _, s := range pic.series {
		for _, at := range s.points {
			highest = max(highest, at.Y)
		}
	}
	p.X.Min, p.X.Max = 1, max(float64(pic.plan.retries()), 2)
	p.Y.Min, p.Y.Max = 0, max(highest, 1)
	p.X.Label.Text, p.Y.Label.Text = "Number of the retry", "Pause before the retry (seconds)"
	p.X.Padding, p.Y.Padding = vg.Points(8), vg.Points(8)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font, axis.Label.TextStyle.Color = style.Font, style.Color
		axis.Label.Padding = vg.Points(6)
		axis.Tick.Label.Font, axis.Tick.Label.Color = style.Font, style.Color
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = gray, gray
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = evenTicks(16), evenTicks(6)
	p.X.Tick.Length = vg.Points(5)
	p.Y.LineStyle.Width, p.Y.Tick.LineStyle.Width = 0, 0
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color = faint
	p.Add(grid)
	for _, s := range pic.series {
		p.Add(s)
	}

	whole := draw.New(canvas)
	whole.SetColor(page)
	whole.Fill(whole.Rectangle.Path())
	area := draw.Crop(whole, vg.Points(12), -vg.Points(16), vg.Points(10), -vg.Points(12))
	title := style
	title.Font.Size, title.Font.Weight, title.YAlign = vg.Points(textSize+2), 3, draw.YTop
	area.FillText(title, vg.Point{X: area.Min.X, Y: area.Max.Y}, pic.title())
	area.Max.Y -= vg.Points(30)
	pic.legend(area, style)
	area.Max.Y -= vg.Points(24)
	p.Draw(area)
}

// legend draws one row along the upper edge, where there are no curves.
func (pic *picture) legend(c draw.Canvas, style text.Style) {
	style.YAlign = draw.YCenter
	const gap, between = 6, 20
	lower := style.FontExtents().Descent / 2 // moves the lines to the middle of the small letters
	at := vg.Point{X: c.Min.X, Y: c.Max.Y - vg.Points(6)}
	for _, s := range pic.series {
		if s.name == "" {
			continue
		}
		width := 2 * s.glyph.Radius
		if s.line.Width > 0 {
			width = vg.Points(26)
			c.StrokeLine2(s.line, at.X, at.Y-lower, at.X+width, at.Y-lower)
		}
		c.DrawGlyph(s.glyph, vg.Point{X: at.X + width/2, Y: at.Y - lower})
		at.X += width + vg.Points(gap)
		c.FillText(style, at, s.name)
		at.X += style.Width(s.name) + vg.Points(between)
	}
}

func writeSVG(w io.Writer, p *plan) error {
	canvas := vgsvg.New(pictureWidth, pictureHeight)
	pic := newPicture(p)
	pic.draw(canvas)
	return svgfile.Write(w, canvas, darkPage, pic.text())
}
