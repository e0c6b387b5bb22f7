package term

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"

	"example.com/awsretry/internal/redact"
)

// Printable returns s with spaces for tabs, and U+FFFD for every other character
// that is not printable, except line feeds.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r), r == '\n':
			return r
		case r == '\t':
			return ' '
		}
		return unicode.ReplacementChar
	}, s)
}

// OneLine returns s as Printable does, without line breaks, and shortened to a
// readable length.
func OneLine(s string) string {
	const limit = 300
	s = strings.Join(strings.Fields(Printable(s)), " ")
	if runes := []rune(s); len(runes) > limit {
		s = string(runes[:limit]) + "…"
	}
	return s
}

// URL returns u on one line, without user, query and fragment.
func URL(u *url.URL) string { return OneLine(redact.URL(u)) }

// prefixes are the prefixes of the errors of this project's packages.
var prefixes = strings.NewReplacer(
	"awsretry: Source.Profile is", "profile is",
	"deliveryqueue: Open: ", "",
	"deliveryqueue: Enqueue: ", "",
	"deliveryqueue: Run: ", "",
	"deliveryqueue: List: ", "",
	"deliveryqueue: Stats: ", "",
	"deliveryqueue: Cancel: ", "",
	"deliveryqueue: Redrive: ", "",
	"awsretry: ", "",
	"delivery: ", "",
	"deliveryqueue: ", "",
	"simulate: ", "",
)

// WithoutPackages returns the text of an error in the words of the command
// line: a user who has never seen the Go packages does not need their names.
func WithoutPackages(text string) string { return prefixes.Replace(text) }

// NewWriter returns a writer for a terminal. It replaces control characters
// (see [redact.IsControl]) other than tab and line feed, and bytes that are not
// UTF-8, with U+FFFD, and drops carriage returns. Close flushes an incomplete last character; it does
// not close w.
func NewWriter(w io.Writer) io.WriteCloser {
	return transform.NewWriter(w, transform.Chain(
		runes.Remove(runes.Predicate(func(r rune) bool { return r == '\r' })),
		runes.Map(func(r rune) rune {
			if redact.IsControl(r) && r != '\t' && r != '\n' {
				return unicode.ReplacementChar
			}
			return r
		}),
	))
}

// NewEncoder returns a JSON encoder that escapes every control character.
// Package encoding/json does not escape DEL, U+0080 to U+009F, and marks of
// direction such as U+202E.
func NewEncoder(w io.Writer) *json.Encoder {
	encoder := json.NewEncoder(Escape(w))
	encoder.SetEscapeHTML(false)
	return encoder
}

// Escape returns a writer of JSON that escapes the control characters which
// package encoding/json does not. It expects one whole value in each Write.
func Escape(w io.Writer) io.Writer { return controlEscaper{w} }

// A controlEscaper escapes every control character but the line feed, the only
// one outside of strings.
type controlEscaper struct{ io.Writer }

func (e controlEscaper) Write(p []byte) (int, error) {
	var b strings.Builder
	for _, r := range string(p) {
		if redact.IsControl(r) && r != '\n' {
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
