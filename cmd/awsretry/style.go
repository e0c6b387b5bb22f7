package main

import (
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/redact"
	"github.com/fatih/color"
	"github.com/jedib0t/go-pretty/v6/text"
)

// A palette colours text, or leaves it as it is.
type palette struct {
	faint, bold, good, bad, warn, throttle func(...any) string
}

// newPalette colours what goes to w if w is a terminal, unless NO_COLOR says otherwise (no-color.org).
func newPalette(p process, w io.Writer) palette {
	return paletteOf(p.isTerminal(w) && p.getenv("NO_COLOR") == "" && p.getenv("TERM") != "dumb")
}

func paletteOf(colored bool) palette {
	paint := func(attributes ...color.Attribute) func(...any) string {
		c := color.New(attributes...)
		if colored {
			c.EnableColor()
		} else {
			c.DisableColor()
		}
		return c.SprintFunc()
	}
	return palette{
		faint:    paint(color.Faint),
		bold:     paint(color.Bold),
		good:     paint(color.FgGreen),
		bad:      paint(color.FgRed),
		warn:     paint(color.FgYellow),
		throttle: paint(color.FgMagenta),
	}
}

func (p palette) class(c awsretry.Class) func(...any) string {
	switch c {
	case awsretry.Success:
		return p.good
	case awsretry.Throttled:
		return p.throttle
	case awsretry.Transient, awsretry.Timeout:
		return p.warn
	}
	return p.bad
}

// left and right fill s up to a width on a terminal. Colours come after.
func left(s string, width int) string  { return s + filling(s, width) }
func right(s string, width int) string { return filling(s, width) + s }

func filling(s string, width int) string {
	return strings.Repeat(" ", max(width-text.StringWidth(s), 0))
}

// brief is a duration to three figures at most.
func brief(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 s"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", max(float64(d)/float64(time.Millisecond), 0.1))
	case d < time.Second-time.Millisecond/2:
		return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
	case d < time.Minute-50*time.Millisecond:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// count is a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if stem, ok := strings.CutSuffix(thing, "y"); ok {
		thing = stem + "ie"
	} else if strings.HasSuffix(thing, "s") {
		thing += "e"
	}
	return grouped(n) + " " + thing + "s"
}

// grouped sets the thousands of n apart.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// bareURL is u without what may be secret.
func bareURL(u *url.URL) string {
	return oneLine(redact.URL(u))
}
