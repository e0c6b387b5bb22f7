package svgfile

import (
	"bytes"
	"image/color"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

func TestWrite(t *testing.T) {
	const name = `style="font-family:Liberation Sans;"<g `
	blue := color.RGBA{0x00, 0x72, 0xb2, 0xff}
	canvas := vgsvg.New(100, 50)
	style := text.Style{
		Color: blue, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: 10}, Handler: plot.DefaultTextHandler,
	}
	c := draw.New(canvas)
	c.FillText(style, vg.Point{}, name)
	var file bytes.Buffer
	if err := Write(&file, canvas, []Ink{{Light: blue, Dark: color.White}}, Text{"a<b", "c"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`style="font-family:` + Families + `;`,
		"<title>a&lt;b</title>\n<desc>c</desc>",
		`>style=&#34;font-family:Liberation Sans;&#34;&lt;g </text>`,
		"<style>\n@media (prefers-color-scheme: dark) {\n" + `[style*="fill:#0072B2"] { fill: #FFFFFF !important }`,
		`fill:#0072B2">`,
	} {
		if strings.Count(file.String(), want) != 1 {
			t.Errorf("not once in the file: %s\n%s", want, file.String())
		}
	}
}
