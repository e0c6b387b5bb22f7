// Package redact removes secrets from URLs and errors, and control characters
// that a server sent, so that a log or a terminal can show them.
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

// Error returns the text of err with each URL as URL returns it, and ?… in
// place of a query, and with control characters replaced as in Text. It is one
// line: a space replaces a line feed, which may be a server's, in the name of a
// certificate. For nil it returns "no error".
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
	return strings.ReplaceAll(Text(text), "\n", " ")
}

// Text returns s with the Unicode replacement character in place of control
// characters other than tabs and line feeds, and of bytes that are not UTF-8.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' && r != '\n' {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))
}
