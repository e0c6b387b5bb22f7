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

// Text that came over the network may hold anything: what a terminal is shown has no control characters that are not ours.

// printable is s without what would steer a terminal.
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

// newScreen returns a writer of text to a terminal: of the control characters only tabs and line feeds get through, others
// and bytes that are not UTF-8 become U+FFFD. Carriage returns are dropped. Close writes what a last, incomplete
// character becomes, and leaves w open.
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

// newJSON returns an encoder of one line for each value, that escapes every control character: encoding/json leaves DEL and
// U+0080 to U+009F as they are.
func newJSON(w io.Writer) *json.Encoder {
	encoder := json.NewEncoder(controlEscaper{w})
	encoder.SetEscapeHTML(false)
	return encoder
}

// A controlEscaper is written whole JSON values. There, a control character that is not white space is in a string.
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
