package chart

import (
	"fmt"
	"image/color"
	"math"
	"testing"
)

// On light and dark pages, texts and lines are legible on the page and on the
// shade of an event, by the contrast that WCAG 2 defines.
func TestContrast(t *testing.T) {
	dark := map[color.Color]color.Color{}
	for _, ink := range darkPage {
		dark[ink.Light] = ink.Dark
	}
	if len(dark) != len(darkPage) {
		t.Fatal("a color has two dark ones")
	}
	onEvents := map[color.Color]float64{
		inkText: 4.5, inkAttempts: 2.5, inkGood: 2.5, inkTokens: 2.5, inkSendRate: 2.5, inkServes: 2.5, inkFaint: 2.5,
	}
	for ink, least := range onEvents {
		for _, pair := range [][2]color.Color{
			{ink, inkPage}, {ink, inkEvent}, {dark[ink], dark[inkPage]}, {dark[ink], dark[inkEvent]},
		} {
			t.Run(fmt.Sprint(pair), func(t *testing.T) {
				if got := contrast(pair[0], pair[1]); got < least {
					t.Errorf("the contrast is %.2f, want at least %v", got, least)
				}
			})
		}
	}
	for _, page := range [][2]color.Color{{inkAside, inkPage}, {dark[inkAside], dark[inkPage]}} {
		if got := contrast(page[0], page[1]); got < 4.5 {
			t.Errorf("the contrast of %v is %.2f, want at least 4.5", page, got)
		}
	}
}

func contrast(a, b color.Color) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(c color.Color) float64 {
	linear := func(v uint32) float64 {
		s := float64(v) / 0xffff
		if s <= 0.03928 {
			return s / 12.92
		}
		return math.Pow((s+0.055)/1.055, 2.4)
	}
	r, g, b, _ := c.RGBA()
	return 0.2126*linear(r) + 0.7152*linear(g) + 0.0722*linear(b)
}
