package chart

import (
	"image/color"
	"math"
	"testing"
)

// On light and dark pages, texts and lines have enough contrast, as WCAG 2 defines
// it, on the page and on the shade of an event.
func TestContrast(t *testing.T) {
	dark := map[color.Color]color.Color{}
	for _, ink := range darkPage {
		dark[ink.Light] = ink.Dark
	}
	for ink, least := range map[color.Color]float64{
		inkText: 4.5, inkAttempts: 2.5, inkGood: 2.5, inkTokens: 2.5, inkSendRate: 2.5, inkServes: 2.5, inkFaint: 2.5,
		inkAside: 4.5,
	} {
		for _, under := range []color.Color{inkPage, inkEvent} {
			if under == color.Color(inkEvent) && ink == color.Color(inkAside) { // which is beside the panels
				continue
			}
			if light, dark := contrast(ink, under), contrast(dark[ink], dark[under]); min(light, dark) < least {
				t.Errorf("the contrast of %v is %.2f and on a dark page %.2f, want at least %v", ink, light, dark, least)
			}
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
