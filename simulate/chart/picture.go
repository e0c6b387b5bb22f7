// Package chart draws the result of a simulation.
package chart

import (
	"fmt"
	"io"
	"time"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/internal/format"
	"example.com/awsretry/simulate/svgfile"
)

// Formats of [Draw].
const (
	SVG = "svg"
	PNG = "png"
)

// The lengths of a picture.
const (
	loadWidth    = 5.2 * vg.Inch
	bucketWidth  = 3.3 * vg.Inch
	panelHeight  = 1.25 * vg.Inch
	columnHeight = 0.3 * vg.Inch // of the columns' titles
	footHeight   = 0.2 * vg.Inch
	margin       = 0.2 * vg.Inch
	axisWidth    = 0.55 * vg.Inch // of the numbers on the left of a panel
	gap          = 0.2 * vg.Inch  // between panels, and above each for its title
	pngDPI       = 144
)

// Draw writes a picture of the outcomes over time, the settings one above the
// other: the offered load and the goodput and, if some setting has them, the
// tokens in the retry bucket and the send rate. The format is [SVG] or [PNG].
func Draw(w io.Writer, r *simulate.Result, kind string) error {
	p := newPicture(r)
	switch kind {
	case SVG:
		canvas := vgsvg.New(p.width, p.height)
		p.draw(draw.New(canvas))
		return svgfile.Write(w, canvas, darkPage)
	case PNG:
		canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(p.width, p.height), vgimg.UseDPI(pngDPI))}
		p.draw(draw.New(canvas))
		_, err := canvas.WriteTo(w)
		return err
	}
	return fmt.Errorf("picture: the format is %.20q; it must be svg or png", kind)
}

// A picture is a Result with its layout.
type picture struct {
	*simulate.Result
	every         int // seconds of a point
	columns       []column
	head          head
	inner         vg.Length // the width without the margins
	width, height vg.Length
}

func newPicture(r *simulate.Result) *picture {
	p := &picture{Result: r, every: simulate.SecondsPerPoint(r.Scenario)}
	p.columns = p.shown()
	for _, c := range p.columns {
		p.inner += axisWidth + c.width + gap
	}
	p.head = newHead(r.Scenario, p.inner)
	p.width = p.inner + 2*margin
	rows := vg.Length(len(r.Outcomes)) * (panelHeight + gap)
	p.height = 2*margin + p.head.height(p.inner) + columnHeight + rows + footHeight
	return p
}

// draw draws on a canvas of the picture's size.
func (p *picture) draw(c draw.Canvas) {
	c.SetColor(inkPage)
	c.Fill(c.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)
	p.head.draw(c)
	top := c.Max.Y - p.head.height(p.inner) - columnHeight
	title := textStyle(inkText, 9.5, false)
	left := c.Min.X + axisWidth
	for _, col := range p.columns {
		c.FillText(title, vg.Point{X: left, Y: top + vg.Points(8)}, shortened(title, col.title, col.width))
		left += col.width + gap + axisWidth
	}
	for i, o := range p.Outcomes {
		p.drawRow(c, top-vg.Length(i)*(panelHeight+gap), o, i == len(p.Outcomes)-1)
	}
}

// drawRow draws the panels of one setting below top.
func (p *picture) drawRow(c draw.Canvas, top vg.Length, o simulate.Outcome, last bool) {
	left := c.Min.X + axisWidth
	name, aside := textStyle(inkText, 10, true), textStyle(inkAside, 9, false)
	above := top - gap + vg.Points(4)
	room := c.Max.X - left - widthOf(aside, figures(o)) - vg.Points(10)
	setting := shortened(name, o.Setting, room)
	c.FillText(name, vg.Point{X: left, Y: above}, setting)
	c.FillText(aside, vg.Point{X: left + widthOf(name, setting) + vg.Points(10), Y: above}, figures(o))
	for _, col := range p.columns {
		area := vg.Rectangle{
			Min: vg.Point{X: left, Y: top - panelHeight},
			Max: vg.Point{X: left + col.width, Y: top - gap},
		}
		p.drawPanel(draw.Canvas{Canvas: c.Canvas, Rectangle: area}, col, o, last)
		left += col.width + gap + axisWidth
	}
}

// figures returns the setting's most telling numbers.
func figures(o simulate.Outcome) string {
	return fmt.Sprintf("%.2f attempts per call, %s failed, p99 %s",
		o.Amplification, format.Percent(o.FailedShare), format.Latency(time.Duration(o.P99)))
}
