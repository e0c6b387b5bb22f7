package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
)

// Text from the network may contain anything. No control character of it may
// reach a terminal.

// printable replaces what is not printable, but for line feeds, with U+FFFD.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// oneLine is printable without line breaks, cut to a length that can be read.
func oneLine(s string) string {
	const limit = 300
	s = strings.Join(strings.Fields(printable(s)), " ")
	if runes := []rune(s); len(runes) > limit {
		s = string(runes[:limit]) + "…"
	}
	return s
}

// newScreen returns a writer for a terminal. It replaces control characters
// other than tab and line feed, and bytes that are not UTF-8, with U+FFFD, and
// drops carriage returns. Close flushes an incomplete last character; it does
// not close w.
func newScreen(w io.Writer) io.WriteCloser {
	return transform.NewWriter(w, transform.Chain(
		runes.Remove(runes.Predicate(func(r rune) bool { return r == '\r' })),
		runes.Map(func(r rune) rune {
			if unicode.IsControl(r) && r != '\t' && r != '\n' {
				return unicode.ReplacementChar
			}
			return r
		}),
	))
}

// newJSON returns an encoder that escapes every control character. Package
// encoding/json does not escape DEL and U+0080 to U+009F.
func newJSON(w io.Writer) *json.Encoder {
	encoder := json.NewEncoder(controlEscaper{w})
	encoder.SetEscapeHTML(false)
	return encoder
}

// A controlEscaper expects one whole JSON value in each Write. The only control
// character outside of its strings is the line feed.
type controlEscaper struct{ io.Writer }

func (e controlEscaper) Write(p []byte) (int, error) {
	var b strings.Builder
	for _, r := range string(p) {
		if unicode.IsControl(r) && r != '\n' {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	if _, err := io.WriteString(e.Writer, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}
