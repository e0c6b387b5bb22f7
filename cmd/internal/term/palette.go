package term

import (
	"io"

	"github.com/fatih/color"

	"example.com/awsretry"
)

// A Color returns its arguments, joined as fmt.Sprint does, in a color.
type Color = func(...any) string

// A Palette has a color for each meaning. Without colors, it returns text
// unchanged.
type Palette struct {
	Faint, Bold, Good, Bad, Warn, Throttle Color
}

// NewPalette returns the palette for w. It has colors if w is a terminal, unless
// the environment has NO_COLOR (no-color.org) or a dumb terminal.
func NewPalette(s Streams, w io.Writer) Palette {
	return palette(s.IsTerminal(w) && s.Getenv("NO_COLOR") == "" && s.Getenv("TERM") != "dumb")
}

func palette(colored bool) Palette {
	paint := func(attribute color.Attribute) Color {
		c := color.New(attribute)
		if colored {
			c.EnableColor()
		} else {
			c.DisableColor()
		}
		return c.SprintFunc()
	}
	return Palette{
		Faint:    paint(color.Faint),
		Bold:     paint(color.Bold),
		Good:     paint(color.FgGreen),
		Bad:      paint(color.FgRed),
		Warn:     paint(color.FgYellow),
		Throttle: paint(color.FgMagenta),
	}
}

// Class returns the color of an attempt of class c.
func (p Palette) Class(c awsretry.Class) Color {
	switch c {
	case awsretry.Success:
		return p.Good
	case awsretry.Throttled:
		return p.Throttle
	case awsretry.Transient, awsretry.Timeout:
		return p.Warn
	}
	return p.Bad
}
