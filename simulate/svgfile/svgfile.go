// Package svgfile writes drawings as SVG files that look right everywhere: on light
// and dark pages, and without the font that they were made with.
package svgfile

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/color"
	"io"
	"strings"

	"gonum.org/v1/plot/vg/vgsvg"
)

// Families are the fonts of every text. The first three have letters of equal
// widths, and most systems have one of them.
const Families = "'Liberation Sans',Arial,Helvetica,sans-serif"

// An Ink is a color of a drawing, and its replacement on a dark page.
type Ink struct{ Light, Dark color.Color }

// A Text describes a drawing for people who cannot see it.
type Text struct{ Title, Description string }

// Write writes the drawing. The page decides which colors of the inks are shown;
// other colors do not change.
func Write(w io.Writer, drawing *vgsvg.Canvas, inks []Ink, shows Text) error {
	var text bytes.Buffer
	if _, err := drawing.WriteTo(&text); err != nil {
		return err
	}
	// Quotes in a user's text are escaped, so neither string is in one.
	const family = `style="font-family:`
	all := bytes.ReplaceAll(text.Bytes(), []byte(family+"Liberation Sans;"), []byte(family+Families+";"))
	_, err := w.Write(bytes.Replace(all, []byte("<g "), []byte(shows.elements()+darkStyle(inks)+"<g "), 1))
	return err
}

// elements returns the elements title and desc.
func (t Text) elements() string {
	escaped := func(text string) string {
		var b strings.Builder
		_ = xml.EscapeText(&b, []byte(text)) // a Builder takes it
		return b.String()
	}
	return "<title>" + escaped(t.Title) + "</title>\n<desc>" + escaped(t.Description) + "</desc>\n"
}

// darkStyle returns the style sheet for dark pages. It overrides the colors that
// the elements have in their style attributes.
func darkStyle(inks []Ink) string {
	var css strings.Builder
	css.WriteString("<style>\n@media (prefers-color-scheme: dark) {\n")
	for _, ink := range inks {
		for _, property := range []string{"fill", "stroke"} {
			fmt.Fprintf(&css, "[style*=\"%s:%s\"] { %[1]s: %[3]s !important }\n", property, hex(ink.Light), hex(ink.Dark))
		}
	}
	css.WriteString("}\n</style>\n")
	return css.String()
}

// hex returns a color as vgsvg writes it.
func hex(c color.Color) string {
	rgb := color.NRGBAModel.Convert(c).(color.NRGBA)
	return fmt.Sprintf("#%02X%02X%02X", rgb.R, rgb.G, rgb.B)
}
