// Package awsconfig reads the retry settings of a profile from the dialect of
// ini files in which the AWS SDKs and the AWS CLI keep ~/.aws/config and
// ~/.aws/credentials.
//
// The package gopkg.in/ini.v1 reads the keys and values of the profile. Before
// that, a bridge finds the profile's lines, and decides what ini.v1 would read
// differently from the AWS SDKs.
package awsconfig

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/ini.v1"
)

const (
	retryModeKey   = "retry_mode"
	maxAttemptsKey = "max_attempts"
)

// A File is a config file or a credentials file.
type File struct {
	Path   string // "" means that there is no such file
	Config bool   // a config file: profiles are [profile NAME], and in a credentials file [NAME]
}

// A Profile is the settings of a profile in one file.
type Profile struct {
	Found                  bool // the profile has a section, which may be empty
	RetryMode, MaxAttempts Value
}

// String returns the path, or the usual path of a file without one.
func (f File) String() string {
	switch {
	case f.Path != "":
		return f.Path
	case f.Config:
		return "~/.aws/config"
	}
	return "~/.aws/credentials"
}

// Profile reads the file and returns the named profile. A file that does not
// exist has no profiles, nor does the null device.
//
// It is an error if the file exists but cannot be read, is not a regular file,
// is larger than 16 MiB, is UTF-16 text, or has lines but no section; and if a
// line of the profile cannot be read. The error never contains the text of a
// line, which may be a secret.
func (f File) Profile(name string) (Profile, error) {
	if f.Path == "" {
		return Profile{}, nil
	}
	text, err := readFile(f.Path)
	if err != nil {
		return Profile{}, err
	}
	return f.parse(text, name)
}

// parse is Profile for a file with that text.
func (f File) parse(text, name string) (Profile, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	if isUTF16(text) {
		return Profile{}, fmt.Errorf("%s is UTF-16 text; it must be UTF-8", f.Path)
	}
	b := &bridge{file: f, profile: name, indent: noProperty}
	number := 0
	for line := range strings.SplitSeq(lineEnds.Replace(text), "\n") {
		number++
		b.add(number, line)
	}
	switch {
	case b.fault != nil:
		return Profile{}, b.fault
	case b.found:
		return b.load()
	case b.hasContent && !b.inSection:
		return Profile{}, fmt.Errorf("%s has no [SECTION]; every line but comments must follow one, such as %s",
			f.Path, f.headers())
	}
	return Profile{}, nil
}

// lineEnds makes each end of a line, which is LF, CRLF or CR, a line feed.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// isUTF16 reports whether text begins with UTF-16's byte order mark, or with an
// ASCII character in UTF-16.
func isUTF16(text string) bool {
	return strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") ||
		len(text) > 1 && (text[0] == 0) != (text[1] == 0)
}

// headers returns the headers of the sections that are read.
func (f File) headers() string {
	if f.Config {
		return "[default] or [profile NAME]"
	}
	return "[default] or [NAME]"
}

// load has ini.v1 read what the bridge passes on.
func (b *bridge) load() (Profile, error) {
	file, err := ini.LoadSources(ini.LoadOptions{
		InsensitiveKeys:     true,
		IgnoreContinuation:  true, // a \ at the end of a line is part of the value
		IgnoreInlineComment: true, // cutProperty has removed them
	}, []byte(b.text.String()))
	if err != nil {
		return Profile{}, errors.New(b.file.Path + " cannot be read") // err contains the text of a line
	}
	keys := file.Section(ini.DefaultSection)
	return Profile{
		Found:       true,
		RetryMode:   b.valueOf(keys, retryModeKey),
		MaxAttempts: b.valueOf(keys, maxAttemptsKey),
	}, nil
}

// valueOf returns the value of a key that the bridge has rewritten.
func (b *bridge) valueOf(keys *ini.Section, key string) Value {
	if !keys.HasKey(key) {
		return Value{}
	}
	text := keys.Key(key).Value() // not String, which expands %(name)s
	line, text, _ := strings.Cut(text, mark)
	text, continuedAt, _ := strings.Cut(text, mark)
	v := Value{Text: text, From: b.file.Path + " " + b.header() + " " + key}
	v.Line, _ = strconv.Atoi(line)
	v.ContinuedAt, _ = strconv.Atoi(continuedAt)
	return v
}
