// Package chart draws the result of a simulation.
package chart

import (
	"fmt"
	"io"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/svgfile"
)

// Formats of [Draw].
const (
	SVG = "svg"
	PNG = "png"
)

// The lengths of a picture.
const (
	panelWidth   = 7.2 * vg.Inch // a page of a repository shows all of it without making the text smaller
	loadHeight   = 1.05 * vg.Inch
	bucketHeight = 0.7 * vg.Inch
	titleHeight  = 0.3 * vg.Inch // of a group's title
	footHeight   = 0.35 * vg.Inch
	margin       = 0.2 * vg.Inch
	axisWidth    = 0.55 * vg.Inch // of the numbers on the left of a panel
	gap          = 0.27 * vg.Inch // above each panel, for its name
	pngDPI       = 144
)

// Draw writes a picture of the outcomes over time: the offered load and the
// goodput of each setting, one above the other, and below them, of the settings
// that have them, the tokens in the retry bucket and the send rate. The format is
// [SVG] or [PNG].
func Draw(w io.Writer, r *simulate.Result, kind string) error {
	p := newPicture(r)
	switch kind {
	case SVG:
		canvas := vgsvg.New(p.width, p.height)
		p.draw(draw.New(canvas))
		return svgfile.Write(w, canvas, darkPage, p.text())
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
	groups        []group
	head          head
	width, height vg.Length
}

// inner is the width without the margins.
const inner = axisWidth + panelWidth + gap

func newPicture(r *simulate.Result) *picture {
	p := &picture{Result: r, every: simulate.SecondsPerPoint(r.Scenario)}
	p.groups = p.shown()
	p.head = newHead(r.Scenario, inner)
	p.width, p.height = inner+2*margin, 2*margin+p.head.height(inner)
	for _, g := range p.groups {
		p.height += titleHeight + vg.Length(len(g.of))*(gap+g.height) + footHeight
	}
	return p
}

// text describes the picture.
func (p *picture) text() svgfile.Text {
	what := p.Scenario.Summary()
	text := svgfile.Text{Title: what.Title}
	for _, o := range p.Outcomes {
		text.Description += o.Setting + ": " + o.Figures() + ". "
	}
	text.Description += strings.Join(append([]string{what.Size}, what.Events...), "; ") + "."
	return text
}

// draw draws on a canvas of the picture's size.
func (p *picture) draw(c draw.Canvas) {
	c.SetColor(inkPage)
	c.Fill(c.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)
	p.head.draw(c)
	y := c.Max.Y - p.head.height(inner)
	for n, g := range p.groups {
		y -= titleHeight
		title := textStyle(inkText, 9.5, false)
		c.FillText(title, vg.Point{X: c.Min.X + axisWidth, Y: y + vg.Points(4)}, shortened(title, g.title, panelWidth))
		for i, o := range g.of {
			y -= gap
			figures := ""
			if n == 0 {
				figures = o.Figures()
			}
			drawName(c, y+vg.Points(4), o.Setting, figures)
			area := vg.Rectangle{
				Min: vg.Point{X: c.Min.X + axisWidth, Y: y - g.height},
				Max: vg.Point{X: c.Min.X + axisWidth + panelWidth, Y: y},
			}
			p.drawPanel(draw.Canvas{Canvas: c.Canvas, Rectangle: area}, g, o, i == len(g.of)-1)
			y -= g.height
		}
		y -= footHeight
	}
}

// drawName draws the name of a setting and its figures.
func drawName(c draw.Canvas, y vg.Length, setting, figures string) {
	left := c.Min.X + axisWidth
	name, aside := textStyle(inkText, 10, true), textStyle(inkAside, 9, false)
	setting = shortened(name, setting, panelWidth-widthOf(aside, figures)-vg.Points(10))
	c.FillText(name, vg.Point{X: left, Y: y}, setting)
	c.FillText(aside, vg.Point{X: left + widthOf(name, setting) + vg.Points(10), Y: y}, figures)
}
