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
	inkAttempts = color.RGBA{0xd5, 0x5e, 0x00, 0xff} // vermillion
	inkGood     = color.RGBA{0x00, 0x72, 0xb2, 0xff} // blue
	inkTokens   = color.RGBA{0x00, 0x9e, 0x73, 0xff} // bluish green
	inkSendRate = color.RGBA{0xcc, 0x79, 0xa7, 0xff} // reddish purple
	inkServes   = color.RGBA{0x33, 0x33, 0x33, 0xff}
	inkText     = color.RGBA{0x22, 0x22, 0x22, 0xff}
	inkAside    = color.RGBA{0x66, 0x66, 0x66, 0xff}
	inkFaint    = color.RGBA{0x88, 0x88, 0x88, 0xff}
	inkPage     = color.RGBA{0xff, 0xff, 0xff, 0xff}
	inkGrid     = color.RGBA{0xe4, 0xe4, 0xe4, 0xff}
	inkEvent    = color.RGBA{0xf1, 0xec, 0xdf, 0xff} // light sand
)

// darkPage has the colors for dark pages.
var darkPage = []svgfile.Ink{
	{Light: inkAttempts, Dark: color.RGBA{0xff, 0x8c, 0x42, 0xff}},
	{Light: inkGood, Dark: color.RGBA{0x56, 0xb4, 0xe9, 0xff}},
	{Light: inkTokens, Dark: color.RGBA{0x2b, 0xc7, 0x9a, 0xff}},
	{Light: inkSendRate, Dark: color.RGBA{0xe2, 0x9c, 0xc4, 0xff}},
	{Light: inkServes, Dark: color.RGBA{0xd0, 0xd0, 0xd0, 0xff}},
	{Light: inkText, Dark: color.RGBA{0xe6, 0xe6, 0xe6, 0xff}},
	{Light: inkAside, Dark: color.RGBA{0xa8, 0xa8, 0xa8, 0xff}},
	{Light: inkFaint, Dark: color.RGBA{0x8a, 0x8a, 0x8a, 0xff}},
	{Light: inkPage, Dark: color.RGBA{0x16, 0x19, 0x1d, 0xff}},
	{Light: inkGrid, Dark: color.RGBA{0x33, 0x38, 0x3f, 0xff}},
	{Light: inkEvent, Dark: color.RGBA{0x3b, 0x35, 0x27, 0xff}},
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
