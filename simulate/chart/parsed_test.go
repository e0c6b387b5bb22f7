package chart

import (
	"bytes"
	"encoding/xml"
	"io"
	"strconv"
	"strings"
	"testing"

	imagefont "golang.org/x/image/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"example.com/awsretry/simulate/svgfile"
)

// A label is a text with the space that it takes in a viewer whose font is a sixth
// wider.
type label struct {
	text string
	vg.Rectangle
}

func (l label) touches(o label) bool {
	return l.Min.X < o.Max.X && o.Min.X < l.Max.X && l.Min.Y < o.Max.Y && o.Min.Y < l.Max.Y
}

// A drawing is what an SVG shows, with the origin at its lower left.
type drawing struct {
	labels   []label
	elements map[string]int
}

// drawnSVG returns what the file of a picture shows.
func drawnSVG(t *testing.T, p *picture) drawing {
	t.Helper()
	canvas := vgsvg.New(p.width, p.height)
	p.draw(draw.New(canvas))
	return parsed(t, canvas)
}

// parsed returns what the SVG file of a canvas shows.
func parsed(t *testing.T, canvas *vgsvg.Canvas) drawing {
	t.Helper()
	var file bytes.Buffer
	if err := svgfile.Write(&file, canvas, darkPage, svgfile.Text{Title: "t", Description: "d"}); err != nil {
		t.Fatal(err)
	}
	d := drawing{elements: map[string]int{}}
	decoder := xml.NewDecoder(&file)
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return d
		}
		if err != nil {
			t.Fatal(err)
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		d.elements[element.Name.Local]++
		has := map[string]string{}
		for _, a := range element.Attr {
			has[a.Name.Local] = a.Value
		}
		if element.Name.Local == "text" {
			var text string
			if err := decoder.DecodeElement(&text, &element); err != nil {
				t.Fatal(err)
			}
			d.labels = append(d.labels, newLabel(t, has, text))
		}
	}
}

// texts counts the texts.
func (d drawing) texts() map[string]int {
	count := map[string]int{}
	for _, l := range d.labels {
		count[l.text]++
	}
	return count
}

// newLabel returns the label of a text element.
func newLabel(t *testing.T, has map[string]string, text string) label {
	t.Helper()
	const wider, emoji = 7. / 6, 1.3
	size := vg.Points(number(t, strings.TrimSuffix(property(has, "font-size"), "px")))
	style := textStyle(inkText, size.Points(), false)
	if property(has, "font-weight") == "bold" {
		style.Font.Weight = imagefont.WeightBold
	}
	if property(has, "font-family") != svgfile.Families {
		t.Errorf("%q has no other font to fall back to", text)
	}
	width := vg.Length(0)
	for _, r := range text {
		one := style.Width(string(r))
		if r > 0x2100 || r >= 0x600 && r < 0x1e00 {
			one = emoji / wider * size
		}
		width += wider * one
	}
	x, y := vg.Length(number(t, has["x"])), -vg.Length(number(t, has["y"]))
	return label{text, vg.Rectangle{
		Min: vg.Point{X: x, Y: y - 0.15*size}, Max: vg.Point{X: x + width, Y: y + 0.75*size},
	}}
}

// property returns a value in the style attribute.
func property(has map[string]string, name string) string {
	for entry := range strings.SplitSeq(has["style"], ";") {
		if value, ok := strings.CutPrefix(entry, name+":"); ok {
			return value
		}
	}
	return ""
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
