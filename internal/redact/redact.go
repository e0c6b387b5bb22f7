// Package redact removes secrets from URLs and errors, and control characters
// that a server sent, so that a log or a terminal can show them. All packages
// have from it what a control character is.
package redact

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// URL returns u without user, query and fragment.
func URL(u *url.URL) string {
	opaque, _, _ := strings.Cut(u.Opaque, "?")
	bare := url.URL{Scheme: u.Scheme, Opaque: opaque, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return bare.String()
}

// Origin returns the scheme and host of u.
func Origin(u *url.URL) string { return URL(&url.URL{Scheme: u.Scheme, Host: u.Host}) }

// urls matches the URLs in a text: a quoted one up to the closing quote, any
// other up to the next white space.
var urls = regexp.MustCompile(`"[A-Za-z][A-Za-z0-9+.-]*://(?:\\.|[^"\\])*"|[A-Za-z][A-Za-z0-9+.-]*://\S+`)

// longest limits the text of an error, in bytes. It may quote a body.
const longest = 4 << 10

// Error returns the text of err with each URL as URL returns it, and ?… in
// place of a query, and with control characters replaced as in Text. It is one
// line: a space replaces a line feed, which may be a server's, in the name of a
// certificate. Of a text above 4 KiB it returns the beginning. For nil it returns
// "no error".
func Error(err error) string {
	return withURLs(err, func(u *url.URL) string {
		if u.RawQuery != "" {
			return URL(u) + "?…"
		}
		return URL(u)
	})
}

// ErrorOrigins is like Error, with each URL as Origin returns it.
func ErrorOrigins(err error) string { return withURLs(err, Origin) }

// withURLs returns the text of err with each URL as show returns it. Of one that
// cannot be parsed it has the scheme alone.
func withURLs(err error, show func(*url.URL) string) string {
	if err == nil {
		return "no error"
	}
	redactURL := func(text string) string {
		u, err := url.Parse(text)
		if err != nil {
			scheme, _, _ := strings.Cut(text, "://")
			return scheme + "://…"
		}
		return show(u)
	}
	text := urls.ReplaceAllStringFunc(err.Error(), func(text string) string {
		if text[0] != '"' {
			return redactURL(text)
		}
		plain, err := strconv.Unquote(text)
		if err != nil {
			return `"…"`
		}
		return strconv.Quote(redactURL(plain))
	})
	text = strings.ReplaceAll(Text(text), "\n", " ")
	if len(text) > longest {
		const more = "…"
		text = strings.ToValidUTF8(text[:longest-len(more)], "") + more
	}
	return text
}

// IsControl reports whether r may change how a log or a terminal shows the text
// around it: a control character, a mark of direction such as U+202E, or
// a separator of lines or paragraphs.
func IsControl(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// Text returns s with the Unicode replacement character in place of each
// character that IsControl knows other than tabs and line feeds, and of bytes
// that are not UTF-8.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if IsControl(r) && r != '\t' && r != '\n' {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))
}
