package picture

import (
	"image/color"
	"strings"

	imagefont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The colors are from M. Okabe and K. Ito's palette, which color-blind readers
// can distinguish. No two lines of a panel differ in their color alone.
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
	inkEvent    = color.RGBA{0xf1, 0xec, 0xdf, 0xff} // light sand
)

func stroke(ink color.Color, width float64) draw.LineStyle {
	return draw.LineStyle{Color: ink, Width: vg.Points(width)}
}

func dashed(ink color.Color, width float64) draw.LineStyle {
	style := stroke(ink, width)
	style.Dashes = []vg.Length{vg.Points(3), vg.Points(2.5)}
	return style
}

// fontFamily replaces the font's name in an SVG. The letters of the first three
// are equally wide, and one of them is nearly everywhere.
const fontFamily = "font-family:'Liberation Sans',Arial,Helvetica,sans-serif"

func textStyle(ink color.Color, size float64, bold bool) draw.TextStyle {
	f := font.From(plot.DefaultFont, vg.Points(size))
	f.Variant = "Sans"
	if bold {
		f.Weight = imagefont.WeightBold
	}
	return draw.TextStyle{Color: ink, Font: f, Handler: plot.DefaultTextHandler}
}

// widthOf returns the room for a text. A viewer of an SVG that has none of the
// fonts takes another one, so this is more than the text's width: DejaVu Sans,
// for example, is a sixth wider.
func widthOf(style draw.TextStyle, text string) vg.Length {
	const spare = 1.2
	return spare * style.Width(text)
}

// wrapped breaks a text into lines that have room in a width, and shortens a
// word that has none.
func wrapped(style draw.TextStyle, text string, width vg.Length) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		longer := strings.TrimSpace(line + " " + word)
		if line != "" && widthOf(style, longer) > width {
			lines = append(lines, line)
			longer = word
		}
		line = shortened(style, longer, width)
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// shortened returns a text, or its beginning and an ellipsis if it has no room
// in a width.
func shortened(style draw.TextStyle, text string, width vg.Length) string {
	if widthOf(style, text) <= width {
		return text
	}
	letters := []rune(text)
	for len(letters) > 0 && widthOf(style, string(letters)+"…") > width {
		letters = letters[:len(letters)-1]
	}
	return string(letters) + "…"
}
