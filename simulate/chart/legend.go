package chart

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A legend explains the curves. Its keys are in rows, as many per row as fit, so
// that no key touches another one or is cut off, whatever the size of the text.
type legend struct {
	text draw.TextStyle
	keys []key
}

// A key is a sample and its name.
type key struct {
	name   string
	sample func(c draw.Canvas) // draws into c
}

// The lengths of a legend, in sizes of its text.
const (
	keySample  = 2.5 // width of the sample
	keyGap     = 0.6 // between the sample and the name
	keyBetween = 2   // between two keys
	keyRow     = 1.7 // height of a row
)

// newLegend returns the legend of a picture. events and joins report whether there
// are events, and whether clients join.
func newLegend(text draw.TextStyle, events, joins bool) legend {
	line := func(style draw.LineStyle) func(draw.Canvas) {
		return func(c draw.Canvas) { c.StrokeLine2(style, c.Min.X, c.Center().Y, c.Max.X, c.Center().Y) }
	}
	keys := []key{
		{"attempts sent (offered load)", line(stroke(inkAttempts, 2))},
		{"calls that succeed (goodput)", line(stroke(inkGood, 2.4))},
		{"what the service can serve", line(capacityStyle)},
	}
	if joins {
		keys = append(keys, key{"send rate of all clients", line(sendRateStyle)},
			key{"clients", line(stroke(inkFaint, 2))}, key{"clients with a lease", line(stroke(inkTokens, 2.4))})
	}
	if events {
		keys = append(keys, key{"event", func(c draw.Canvas) {
			c.SetColor(inkEvent)
			c.Fill(c.Path())
		}})
	}
	return legend{text, keys}
}

// at returns the left edge and the row of each key in an area of that width.
func (l legend) at(width vg.Length) (left []vg.Length, row []int) {
	em := l.text.Font.Size
	x, y := vg.Length(0), 0
	for _, k := range l.keys {
		room := (keySample+keyGap)*em + widthOf(l.text, k.name)
		if x > 0 && x+room > width {
			x, y = 0, y+1
		}
		left, row = append(left, x), append(row, y)
		x += room + keyBetween*em
	}
	return left, row
}

func (l legend) height(width vg.Length) vg.Length {
	_, row := l.at(width)
	return vg.Length(row[len(row)-1]+1) * keyRow * l.text.Font.Size
}

// draw draws the legend along the upper edge of c.
func (l legend) draw(c draw.Canvas) {
	em := l.text.Font.Size
	left, row := l.at(c.Size().X)
	for i, k := range l.keys {
		x := c.Min.X + left[i]
		base := c.Max.Y - vg.Length(row[i])*keyRow*em - 1.2*em
		k.sample(draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: x, Y: base - 0.1*em}, Max: vg.Point{X: x + keySample*em, Y: base + 0.8*em},
		}})
		name := shortened(l.text, k.name, c.Max.X-x-(keySample+keyGap)*em)
		c.FillText(l.text, vg.Point{X: x + (keySample+keyGap)*em, Y: base}, name)
	}
}
