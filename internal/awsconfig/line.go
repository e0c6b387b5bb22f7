package awsconfig

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// namePunctuation is what a profile's name may have besides letters and digits.
const namePunctuation = "-/.%@_:+"

const nul = "\x00"

// lines yields the lines of text with their numbers, from 1. A line ends with
// LF, CRLF or CR.
func lines(text string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for number := 1; text != ""; number++ {
			line, rest := text, ""
			if end := strings.IndexAny(text, "\r\n"); end >= 0 {
				line, rest = text[:end], text[end+1:]
				if text[end] == '\r' {
					rest = strings.TrimPrefix(rest, "\n")
				}
			}
			if !yield(number, line) {
				return
			}
			text = rest
		}
	}
}

// cutIndent returns the line without white space at its ends, and how many
// characters of white space it began with.
func cutIndent(line string) (trimmed string, indent int) {
	trimmed = strings.TrimLeftFunc(line, unicode.IsSpace)
	return strings.TrimSpace(trimmed), utf8.RuneCountInString(line[:len(line)-len(trimmed)])
}

// cutComment returns a value without the comment after it, and without white
// space at its ends.
func cutComment(value string) string {
	for i := 1; i < len(value); i++ {
		if (value[i] == '#' || value[i] == ';') && (value[i-1] == ' ' || value[i-1] == '\t') {
			value = value[:i]
			break
		}
	}
	return strings.TrimSpace(value)
}

// cutHeader returns the text between the brackets of a section's header. What
// follows them is ignored.
func cutHeader(line string) (header string, ok bool) {
	if line[0] != '[' {
		return "", false
	}
	header, _, ok = strings.Cut(line[1:], "]")
	return header, ok
}

// brokenHeader returns the text of a header that lacks one of its brackets.
func brokenHeader(line string) (header string, ok bool) {
	line = cutComment(line)
	header = strings.Trim(line, "[]")
	return header, header != line
}

// parseHeader returns the profile that a header names, or "" if it names none,
// and whether the word profile precedes the name.
func parseHeader(header string) (name string, word bool) {
	name = strings.TrimSpace(header)
	if rest, ok := strings.CutPrefix(name, "profile"); ok && rest != "" {
		if trimmed := strings.TrimSpace(rest); trimmed != rest {
			name, word = trimmed, true
		}
	}
	if n := len(name); n >= 2 && name[0] == name[n-1] && (name[0] == '"' || name[0] == '\'') {
		name = name[1 : n-1]
	}
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(namePunctuation, r) {
			return "", word
		}
	}
	return name, word
}

// cutProperty cuts a property after the first = or :, as the AWS CLI does. The
// key includes that delimiter; it is "" if the line is not a property. The
// reason says why the line cannot be read, "" if it can.
func cutProperty(line string) (key, value, reason string) {
	if line[0] == '[' {
		return "", "", "it has no ]"
	}
	delimiter := strings.IndexAny(line, "=:")
	switch {
	case delimiter < 0 && strings.HasSuffix(cutComment(line), "]"):
		return "", "", "it has no ["
	case delimiter < 0:
		return "", "", "it has no = or :"
	case delimiter == 0:
		return "", "", "it has no name before the " + line[:1]
	}
	key, value = line[:delimiter+1], cutComment(line[delimiter+1:])
	switch {
	case !utf8.ValidString(key) || !utf8.ValidString(value):
		reason = "it is not UTF-8 text"
	case strings.Contains(key, nul) || strings.Contains(value, nul):
		reason = "it has a NUL byte"
	}
	return key, value, reason
}
