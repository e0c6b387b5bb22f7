package schedule

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"example.com/awsretry/simulate/svgfile"
)

// A series is the points of one color and shape.
type series struct {
	name   string
	points plotter.XYs
	line   draw.LineStyle // a width of 0: no line
	glyph  draw.GlyphStyle
}

func newSeries(name string, c color.Color, shape draw.GlyphDrawer) *series {
	return &series{
		name:  name,
		line:  draw.LineStyle{Color: c, Width: vg.Points(2)},
		glyph: draw.GlyphStyle{Color: c, Radius: vg.Points(4), Shape: shape},
	}
}

// A diamond is a square turned by 45 degrees.
type diamond struct{}

func (diamond) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	r := style.Radius * 1.25
	c.FillPolygon(style.Color, []vg.Point{
		{X: at.X - r, Y: at.Y}, {X: at.X, Y: at.Y + r}, {X: at.X + r, Y: at.Y}, {X: at.X, Y: at.Y - r},
	})
}

// Plot implements plot.Plotter.
func (s *series) Plot(c draw.Canvas, p *plot.Plot) {
	if s.line.Width > 0 {
		(&plotter.Line{XYs: s.points, LineStyle: s.line}).Plot(c, p)
	}
	if s.glyph.Shape != nil {
		(&plotter.Scatter{XYs: s.points, GlyphStyle: s.glyph}).Plot(c, p)
	}
}

// The colors are from M. Okabe and K. Ito, "Color Universal Design": color-blind
// readers can distinguish them. Each series also has its own shape.
var (
	blue       = color.RGBA{0x00, 0x72, 0xB2, 0xFF}
	vermillion = color.RGBA{0xD5, 0x5E, 0x00, 0xFF}
	green      = color.RGBA{0x00, 0x9E, 0x73, 0xFF}
	purple     = color.RGBA{0xCC, 0x79, 0xA7, 0xFF}

	ink   = color.Gray{0x33}
	gray  = color.Gray{0x88}
	faint = color.Gray{0xE0}
	page  = color.Gray{0xFF}
)

// darkPage has the colors for dark pages.
var darkPage = []svgfile.Ink{
	{Light: blue, Dark: color.RGBA{0x56, 0xB4, 0xE9, 0xFF}},
	{Light: vermillion, Dark: color.RGBA{0xFF, 0x8C, 0x42, 0xFF}},
	{Light: green, Dark: color.RGBA{0x2B, 0xC7, 0x9A, 0xFF}},
	{Light: purple, Dark: color.RGBA{0xE2, 0x9C, 0xC4, 0xFF}},
	{Light: ink, Dark: color.Gray{0xE0}},
	{Light: gray, Dark: color.Gray{0x8A}},
	{Light: faint, Dark: color.Gray{0x38}},
	{Light: page, Dark: color.RGBA{0x16, 0x19, 0x1D, 0xFF}},
}
