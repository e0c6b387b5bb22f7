package awsconfig

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

const (
	// mark separates the number of a line from the value after it, and that from
	// the number of the line that continues it. The first number also keeps a
	// quote from beginning the value: it would begin a quoted string, which may
	// end on a later line. No line that reaches ini.v1 has a NUL byte.
	mark = nul

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
//     or a header, indented or not. The AWS CLI and Python read a file so. They
//     lose a setting or a header that continues a value; here it is an error,
//     except for a setting in a block, such as that below "s3 =".
//   - A value may begin with a quote, which is part of it. See mark.
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
	above      int  // the number of its line
	block      bool // it has no value on that line
	joinable   bool // it is passed on, and no line continues it so far
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
		b.join(number, line)
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
		b.indent, b.above, b.block = indent, number, value == ""
	}
	switch {
	case reason != "":
		b.blame(number, line, reason)
	case b.inProfile && isSetting(key):
		for _, part := range []string{"\n", key, strconv.Itoa(number), mark, value} {
			b.text.WriteString(part)
		}
		b.joinable = true
	}
}

// join reads a line that continues the property above.
func (b *bridge) join(number int, line string) {
	if b.joinable {
		b.text.WriteString(mark)
		b.text.WriteString(strconv.Itoa(number))
		b.joinable = false
		return
	}
	key, _, _ := cutProperty(line)
	hidden := b.inProfile && !b.block && isSetting(key)
	if header, ok := cutHeader(line); ok {
		_, hidden = b.names(header)
	}
	if hidden {
		b.blame(number, line, fmt.Sprintf("it is indented deeper than line %d, so that it is part of that value", b.above))
	}
}

// open begins a section of the profile, unless the header is that of another
// one. The first [profile default] replaces all [default].
func (b *bridge) open(header string) {
	word, ok := b.names(header)
	if !ok {
		return
	}
	if word && !b.word {
		b.word, b.fault = true, nil
		b.text.Reset()
	}
	b.found, b.inProfile = true, word == b.word
}

// names reports whether the header is the profile's, and whether it has the
// word profile before the name. A name after that word may be quoted, and must
// be if it has white space.
func (b *bridge) names(header string) (word, ok bool) {
	name := strings.TrimSpace(header)
	if !b.file.Config {
		return false, name == b.profile
	}
	rest, word := strings.CutPrefix(name, "profile")
	quoted := strings.TrimLeftFunc(rest, unicode.IsSpace)
	if !word || quoted == rest {
		return false, name == defaultProfile && b.profile == defaultProfile
	}
	bare := quoted == b.profile && !strings.ContainsFunc(b.profile, unicode.IsSpace)
	return true, bare || quoted == `"`+b.profile+`"` || quoted == "'"+b.profile+"'"
}

// blame records a line that cannot be read. If it is a header, or one but for a
// bracket, it begins that section: the settings below it are not those of the
// section above.
func (b *bridge) blame(number int, line, reason string) {
	if header, ok := headerOf(line); ok {
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
