package retryablehttp

import (
	"errors"
	"net/url"
	"strings"
	"unicode"
)

// This package imports no internal one, so that it can replace
// github.com/hashicorp/go-retryablehttp in a go.mod.

// redacted returns a URL without user, query and fragment.
func redacted(u *url.URL) string {
	if u == nil {
		return ""
	}
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return bare.String()
}

// textOf returns the text of an error on one line, with its URL redacted.
func textOf(err error) string {
	text := err.Error()
	if failed := (*url.Error)(nil); errors.As(err, &failed) && failed.URL != "" {
		shown := "…"
		if u, err := url.Parse(failed.URL); err == nil {
			shown = redacted(u)
		}
		text = strings.ReplaceAll(text, failed.URL, shown)
	}
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp) { // what a server sent
			return ' '
		}
		return r
	}, text)
}
