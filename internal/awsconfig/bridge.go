package awsconfig

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

const (
	// guard precedes each value in the bridge's text. Otherwise a quote there
	// would begin a quoted string, which may end on a later line.
	guard = "."

	// continuedMark separates a value from the number of the line that
	// continues it. No line that reaches ini.v1 has a NUL byte.
	continuedMark = nul

	// maxKeys is how many different keys of a section reach ini.v1, which
	// searches the list of them once for each line.
	maxKeys = 64
)

// A bridge rewrites a file for ini.v1, which reads some lines differently from
// the AWS SDKs:
//
//   - A header ends at its first ], and the name in it may have white space and
//     quotes around it. It is rewritten to the one form that its section has.
//   - A comment may follow a value after a space or a tab, and begins with # or
//     ;, whichever is first. It is removed.
//   - A line that is indented deeper than the property above it continues that
//     property. The line's number is joined to the value: no setting has a
//     value of several lines, and the AWS CLI and the AWS SDK for Go refuse one
//     that stands only on the line below. Every other line is itself a property
//     or a header, indented or not. The AWS CLI and Python read a file so.
//   - A value may begin with a quote, which is part of it. See guard.
//   - A line that cannot be read makes its own profile invalid and no other
//     one. It is removed, and is its section's fault. ini.v1 would refuse the
//     file.
//
// The time that ini.v1 takes grows with the number of lines times that of
// sections or keys. The bridge limits both: it passes on the sections of one
// profile, and of these the lines that begin with the name of a setting.
type bridge struct {
	text bytes.Buffer // for ini.v1; each line begins with its line feed

	profile      string
	config       bool
	bare, worded section // [NAME] and [profile NAME]

	inSection  bool     // there was a header, of any section
	hasContent bool     // there was a line that is not empty and not a comment
	current    *section // nil outside the profile
	indent     int      // of the property above; noProperty if there is none in this section
	joinable   bool     // the property above is passed on, and no line continues it so far
}

const noProperty = math.MaxInt

// A section is the state of all sections with one header.
// Their keys and values are for ini.v1 to merge.
type section struct {
	// header is the section's name for ini.v1. It includes the brackets: ini.v1
	// always has a section DEFAULT, and takes [a] for the parent of [a.b].
	header string

	keys  map[string]struct{}
	fault *fault // the first one; nil if there is none
}

// A fault is a line that cannot be read.
type fault struct {
	line            int
	reason, allowed string
}

func newBridge(profile string, config bool) *bridge {
	return &bridge{
		profile: profile,
		config:  config,
		bare:    section{header: "[" + profile + "]"},
		worded:  section{header: "[profile " + profile + "]"},
		indent:  noProperty,
	}
}

// add rewrites a line.
func (b *bridge) add(number int, line string) {
	line, indent := cutIndent(line)
	if line == "" || line[0] == '#' || line[0] == ';' {
		return // the line below may continue the property above
	}
	b.hasContent = true
	if indent > b.indent {
		b.addContinuation(number)
		return
	}
	b.indent, b.joinable = noProperty, false
	if header, ok := cutHeader(line); ok {
		b.inSection = true
		b.open(b.section(header))
		return
	}
	key, value, reason := cutProperty(line)
	if key != "" && b.inSection {
		b.indent = indent
	}
	if reason != "" {
		b.addUnreadable(number, line, reason)
		return
	}
	b.addProperty(number, key, value)
}

// section returns the section of the profile that a header begins, or nil if it
// begins another one.
func (b *bridge) section(header string) *section {
	switch name, word := parseHeader(header); {
	case name == "" || name != b.profile:
		return nil
	case word && b.config:
		return &b.worded
	case !word && (!b.config || name == defaultProfile):
		return &b.bare
	}
	return nil
}

// open begins a section of the profile, or another one if s is nil.
func (b *bridge) open(s *section) {
	b.current = s
	if s != nil {
		b.text.WriteString("\n[")
		b.text.WriteString(s.header)
		b.text.WriteByte(']')
	}
}

// addProperty passes on a property. The key includes its delimiter.
func (b *bridge) addProperty(number int, key, value string) {
	s := b.current
	if s == nil || s.fault != nil || !beginsWithSetting(key) {
		return
	}
	if !s.addKey(key) {
		s.fault = &fault{number, "it is one key too many that begins with " + retryModeKey + " or " + maxAttemptsKey,
			fmt.Sprint(maxKeys, " different ones")}
		return
	}
	b.text.WriteByte('\n')
	b.text.WriteString(key)
	b.text.WriteString(guard)
	b.text.WriteString(value)
	b.joinable = true
}

// addContinuation passes on the number of a line that continues the property
// above.
func (b *bridge) addContinuation(number int) {
	if b.joinable {
		fmt.Fprintf(&b.text, "%s%d", continuedMark, number)
		b.joinable = false
	}
}

// addUnreadable records a line that cannot be read. If it is a header but for a
// bracket, it begins that section: the settings below it are not those of the
// section above.
func (b *bridge) addUnreadable(number int, line, reason string) {
	if header, ok := brokenHeader(line); ok {
		if s := b.section(header); s != nil {
			b.open(s)
		}
	}
	if b.current != nil {
		b.current.blame(number, reason)
	}
}

// blame records why a line of the section cannot be read.
func (s *section) blame(number int, reason string) {
	if s.fault == nil {
		s.fault = &fault{number, reason, "NAME = VALUE, NAME: VALUE, [SECTION], a line that begins with # or ;, " +
			"and under a value the lines indented deeper than it that continue it"}
	}
}

// addKey adds a key, and reports whether the section has room for it.
func (s *section) addKey(key string) bool {
	if s.keys == nil {
		s.keys = make(map[string]struct{})
	}
	s.keys[key] = struct{}{}
	return len(s.keys) <= maxKeys
}

// beginsWithSetting reports whether ini.v1 may take the key for a setting's.
func beginsWithSetting(key string) bool {
	for _, name := range []string{retryModeKey, maxAttemptsKey} {
		if len(key) >= len(name) && strings.EqualFold(key[:len(name)], name) {
			return true
		}
	}
	return false
}
