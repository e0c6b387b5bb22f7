// Package redact makes URLs and errors fit for a log or a terminal: without
// secrets, and without control characters that a server sent.
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

// urls finds the URLs in a text: quoted ones to the closing quote, others to the
// next white space.
var urls = regexp.MustCompile(`"[A-Za-z][A-Za-z0-9+.-]*://(?:\\.|[^"\\])*"|[A-Za-z][A-Za-z0-9+.-]*://\S+`)

// Error returns the text of err with its URLs as URL has them, and with no
// control characters but tabs and line ends. A nil error is "no error".
func Error(err error) string {
	if err == nil {
		return "no error"
	}
	return Text(urls.ReplaceAllStringFunc(err.Error(), func(text string) string {
		if text[0] != '"' {
			return inText(text)
		}
		plain, err := strconv.Unquote(text)
		if err != nil {
			return `"…"`
		}
		return strconv.Quote(inText(plain))
	}))
}

func inText(text string) string {
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

// Text returns s with the Unicode replacement character for each control
// character but tabs and line ends, and for bytes that are not UTF-8.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' && r != '\n' {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))
}
