package awsconfig

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

const (
	// guard precedes each value in the bridge's text. Otherwise a quote there
	// would begin a quoted string, which may end on a later line.
	guard = "."

	// continuedMark separates a value from the number of the line that
	// continues it. No line that reaches ini.v1 has a NUL byte.
	continuedMark = nul

	allowedLines = "NAME = VALUE, NAME: VALUE, [SECTION], a line that begins with # or ;, " +
		"and under a value the lines indented deeper than it that continue it"
)

// A bridge passes on to ini.v1 the lines of a profile that are settings. It
// decides what ini.v1 has no option for:
//
//   - A comment may follow a value after a space or a tab, and begins with # or
//     ;, whichever is first.
//   - A line that is indented deeper than the property above it continues that
//     property. The line's number is joined to the value: no setting has a
//     value of several lines, and the AWS CLI and the AWS SDK for Go refuse one
//     that stands only on the line below. Every other line is itself a property
//     or a header, indented or not. The AWS CLI and Python read a file so.
//   - A value may begin with a quote, which is part of it. See guard.
//   - A line that cannot be read makes its own profile invalid and no other
//     one. ini.v1 would refuse the file.
//
// Lines that are no settings are not passed on: ini.v1 would search all keys of
// the profile once for each of them.
type bridge struct {
	file    File
	profile string

	text  strings.Builder // for ini.v1; each line begins with its line feed
	found bool            // the profile has a section
	word  bool            // its header is [profile NAME]
	fault error           // the profile's first line that cannot be read

	inSection  bool // there was a header, of any section
	hasContent bool // there was a line that is not empty and not a comment
	inProfile  bool
	indent     int  // of the property above; noProperty if there is none in this section
	joinable   bool // the property above is passed on, and no line continues it so far
}

const noProperty = math.MaxInt

// add reads a line.
func (b *bridge) add(number int, line string) {
	line, indent := cutIndent(line)
	if line == "" || line[0] == '#' || line[0] == ';' {
		return // the line below may continue the property above
	}
	b.hasContent = true
	if indent > b.indent {
		if b.joinable {
			b.text.WriteString(continuedMark)
			b.text.WriteString(strconv.Itoa(number))
			b.joinable = false
		}
		return
	}
	b.indent, b.joinable = noProperty, false
	if header, ok := cutHeader(line); ok {
		b.inSection, b.inProfile = true, false
		b.open(header)
		return
	}
	key, value, reason := cutProperty(line)
	if key != "" && b.inSection {
		b.indent = indent
	}
	switch {
	case reason != "":
		b.blame(number, line, reason)
	case b.inProfile && isSetting(key):
		for _, part := range []string{"\n", key, guard, value} {
			b.text.WriteString(part)
		}
		b.joinable = true
	}
}

// open begins a section of the profile, unless the header is that of another
// one. The first [profile default] replaces all [default].
func (b *bridge) open(header string) {
	name := strings.TrimSpace(header)
	rest, word := strings.CutPrefix(name, "profile")
	if trimmed := strings.TrimLeftFunc(rest, unicode.IsSpace); word && trimmed != rest {
		name = trimmed
	} else {
		word = false
	}
	switch {
	case !isName(b.profile), name != b.profile && name != `"`+b.profile+`"` && name != "'"+b.profile+"'":
		return
	case word != b.file.Config && (word || b.profile != defaultProfile):
		return
	case word && !b.word:
		b.word, b.fault = true, nil
		b.text.Reset()
	}
	b.found, b.inProfile = true, word == b.word
}

// blame records a line that cannot be read. If it is a header but for a
// bracket, it begins that section: the settings below it are not those of the
// section above.
func (b *bridge) blame(number int, line, reason string) {
	if header, ok := brokenHeader(line); ok {
		b.open(header)
	}
	if b.inProfile && b.fault == nil {
		b.fault = fmt.Errorf("%s line %d, in %s, cannot be read: %s; allowed are %s",
			b.file.Path, number, b.header(), reason, allowedLines)
	}
}

// header returns the header of the profile.
func (b *bridge) header() string {
	if b.word {
		return "[profile " + b.profile + "]"
	}
	return "[" + b.profile + "]"
}
