package chart

import (
	"sort"
	"strings"
	"unicode"

	"golang.org/x/image/font/sfnt"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// widthOf returns the space for a text. It is wider than the text, because a viewer
// of an SVG that has none of the fonts uses another one: DejaVu Sans, for example,
// is a sixth wider. A viewer also uses another font for letters that these fonts do
// not have, of which emoji are the widest.
func widthOf(style draw.TextStyle, text string) vg.Length {
	const spare, foreign = 1.2, 1.4
	face := style.Handler.Cache().Lookup(style.Font, style.Font.Size).Face
	var buffer sfnt.Buffer
	others := 0
	own := strings.Map(func(r rune) rune {
		if glyph, err := face.GlyphIndex(&buffer, r); err != nil || glyph == 0 {
			others++
			return -1
		}
		return r
	}, text)
	return spare*style.Width(own) + vg.Length(others)*foreign*style.Font.Size
}

// harmless replaces characters that do not print or that change the direction
// of a line, and drops marks that would change its height.
func harmless(text string) string {
	marks := 0
	return strings.Map(func(r rune) rune {
		if !unicode.In(r, unicode.Mn, unicode.Me) {
			marks = 0
		} else if marks++; marks > 2 {
			return -1
		}
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.Join(strings.Fields(strings.ToValidUTF8(text, string(unicode.ReplacementChar))), " "))
}

// wrapped breaks a text into lines that fit into a width, and shortens a word
// that does not fit.
func wrapped(style draw.TextStyle, text string, width vg.Length) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(harmless(text)) {
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

// shortened returns a text, or its beginning and an ellipsis if it does not fit
// into a width.
func shortened(style draw.TextStyle, text string, width vg.Length) string {
	text = harmless(text)
	if widthOf(style, text) <= width {
		return text
	}
	letters := []rune(text)
	fit := sort.Search(len(letters), func(n int) bool { return widthOf(style, string(letters[:n+1])+"…") > width })
	return string(letters[:fit]) + "…"
}
