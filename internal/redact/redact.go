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

// urls matches the URLs in a text: a quoted one up to the closing quote, any
// other up to the next white space.
var urls = regexp.MustCompile(`"[A-Za-z][A-Za-z0-9+.-]*://(?:\\.|[^"\\])*"|[A-Za-z][A-Za-z0-9+.-]*://\S+`)

// Error returns the text of err with each URL as URL returns it, and ?… in
// place of a query, and with control characters replaced as in Text. For nil it
// returns "no error".
func Error(err error) string {
	if err == nil {
		return "no error"
	}
	return Text(urls.ReplaceAllStringFunc(err.Error(), func(text string) string {
		if text[0] != '"' {
			return redactURL(text)
		}
		plain, err := strconv.Unquote(text)
		if err != nil {
			return `"…"`
		}
		return strconv.Quote(redactURL(plain))
	}))
}

// redactURL returns a URL in a text without its secrets. Of one that cannot be
// parsed it returns the scheme alone.
func redactURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		scheme, _, _ := strings.Cut(text, "://")
		return scheme + "://…"
	case u.RawQuery != "":
		return URL(u) + "?…"
	}
	return URL(u)
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
