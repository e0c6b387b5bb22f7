package awsconfig

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const nul = "\x00"

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

// headerOf returns the text of a header, which may lack one of its brackets.
func headerOf(line string) (header string, ok bool) {
	line = cutComment(line)
	header = strings.Trim(line, "[]")
	return header, header != line
}

// isSetting reports whether a key, with its delimiter, is that of a setting.
func isSetting(key string) bool {
	name := strings.TrimSpace(strings.TrimRight(key, "=:"))
	return strings.EqualFold(name, retryModeKey) || strings.EqualFold(name, maxAttemptsKey)
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
	case !isSetting(key):
	case !utf8.ValidString(value):
		reason = "it is not UTF-8 text"
	case strings.Contains(value, nul):
		reason = "it has a NUL byte"
	}
	return key, value, reason
}
