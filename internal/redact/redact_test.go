package redact

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

func TestURL(t *testing.T) {
	for given, want := range map[string]string{
		"https://user:secret@host:8080/a%2Fb?token=1#part": "https://host:8080/a%2Fb",
		"http://host":            "http://host",
		"opaque:some/thing?x=1":  "opaque:some/thing",
		"/path/alone?secret=yes": "/path/alone",
	} {
		u, err := url.Parse(given)
		if err != nil {
			t.Fatal(err)
		}
		if got := URL(u); got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
	if got := URL(&url.URL{Scheme: "http", Opaque: "//host/path?secret=1"}); got != "http://host/path" {
		t.Error(got)
	}
}

func TestError(t *testing.T) {
	for given, want := range map[string]string{
		"plain":                                           "plain",
		`Get "http://h/p?key=1": EOF`:                     `Get "http://h/p?…": EOF`,
		"dial http://u:p@h/p?key=1 failed":                "dial http://h/p?… failed",
		`parse "http://h/%zz?key=1": broken`:              `parse "http://…": broken`,
		"a\x1b[31mred\u009b0m\x7f\tb\nc\r":                "a\ufffd[31mred\ufffd0m\ufffd\tb c\ufffd",
		"not \xff UTF-8":                                  "not \ufffd UTF-8",
		"\u202egpj\u202c \u2066x\u2069\u2028":             "\ufffdgpj\ufffd \ufffdx\ufffd\ufffd",
		"ünï 四 👩\u200d🚀 \u200f":                           "ünï 四 👩\u200d🚀 \ufffd",
		strings.Repeat("é", 1<<19):                        strings.Repeat("é", 2046) + "…",
		"http://h/?k=" + strings.Repeat("k", 5000) + " x": "http://h/?… x",
	} {
		if got := Error(errors.New(given)); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
	if Error(nil) != "no error" {
		t.Error(Error(nil))
	}
}
