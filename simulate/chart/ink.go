package chart

import (
	"image/color"

	"example.com/awsretry/simulate/svgfile"
	imagefont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// On a light page, the colors of the lines are from M. Okabe and K. Ito's palette, which color-blind readers
// can distinguish. No two lines of a panel differ in their color alone.
var (
	inkAttempts = ink(0xd55e00, 0xff8c42) // vermillion
	inkGood     = ink(0x0072b2, 0x56b4e9) // blue
	inkTokens   = ink(0x009e73, 0x2bc79a) // bluish green
	inkSendRate = ink(0xcc79a7, 0xe29cc4) // reddish purple
	inkServes   = ink(0x333333, 0xd0d0d0)
	inkText     = ink(0x222222, 0xe6e6e6)
	inkAside    = ink(0x666666, 0xa8a8a8)
	inkFaint    = ink(0x888888, 0x8a8a8a)
	inkPage     = ink(0xffffff, 0x16191d)
	inkGrid     = ink(0xe4e4e4, 0x33383f)
	inkEvent    = ink(0xf1ecdf, 0x3b3527) // light sand
)

// darkPage has the colors for dark pages.
var darkPage []svgfile.Ink

// ink returns a color, and adds its replacement on a dark page.
func ink(light, dark uint32) color.Color {
	rgb := func(v uint32) color.Color { return color.RGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), 0xff} }
	darkPage = append(darkPage, svgfile.Ink{Light: rgb(light), Dark: rgb(dark)})
	return rgb(light)
}

func stroke(ink color.Color, width float64) draw.LineStyle {
	return draw.LineStyle{Color: ink, Width: vg.Points(width)}
}

func dashed(ink color.Color, width float64, dash, space vg.Length) draw.LineStyle {
	style := stroke(ink, width)
	style.Dashes = []vg.Length{dash, space}
	return style
}

// The styles of the lines that have dashes.
var (
	capacityStyle = dashed(inkServes, 0.9, 3, 2.5)
	sendRateStyle = dashed(inkSendRate, 1.4, 7, 1.5)
)

func textStyle(ink color.Color, size float64, bold bool) draw.TextStyle {
	f := font.From(plot.DefaultFont, vg.Points(size))
	f.Variant = "Sans"
	if bold {
		f.Weight = imagefont.WeightBold
	}
	return draw.TextStyle{Color: ink, Font: f, Handler: plot.DefaultTextHandler}
}
