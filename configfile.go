package awsretry

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"gopkg.in/ini.v1"
)

const (
	retryModeKey   = "retry_mode"
	maxAttemptsKey = "max_attempts"

	// maxConfigFileSize bounds the memory that a file can take.
	maxConfigFileSize = 16 << 20

	profileNamePunctuation = "-/.%@_:+"
)

// A sharedFile is a config or a credentials file.
type sharedFile struct {
	path     string // "": there is none
	isConfig bool   // profiles are [profile NAME]; in the credentials file they are [NAME]
}

// profileSettings is what one file says about one profile.
type profileSettings struct {
	found                  bool
	retryMode, maxAttempts setting
}

func (f sharedFile) String() string {
	switch {
	case f.path != "":
		return f.path
	case f.isConfig:
		return "~/.aws/config"
	}
	return "~/.aws/credentials"
}

// headers returns the headers of the sections that have settings.
func (f sharedFile) headers() string {
	if f.isConfig {
		return "[default] or [profile NAME]"
	}
	return "[default] or [NAME]"
}

// profile reads the file and returns what it says about the named profile. A file that does not exist says nothing.
func (f sharedFile) profile(name string) (profileSettings, error) {
	if f.path == "" {
		return profileSettings{}, nil
	}
	text, err := readConfigFile(f.path)
	if err != nil {
		return profileSettings{}, err
	}
	return f.parse(text, name)
}

// parse returns what the text, as if it stood in f, says about the named profile.
func (f sharedFile) parse(text, name string) (profileSettings, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	if strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") {
		return profileSettings{}, fmt.Errorf("awsretry: %s is UTF-16 text; it must be UTF-8", f.path)
	}
	if strings.Contains(text, "\x00") {
		return profileSettings{}, fmt.Errorf("awsretry: %s has a NUL byte; it must be UTF-8 text", f.path)
	}
	section, anySection := f.findProfile(text, name)
	switch {
	case !anySection && !section.found && !isBlank(text):
		return profileSettings{}, fmt.Errorf("awsretry: %s has no [SECTION]; every line but comments must follow one, such as %s",
			f.path, f.headers())
	case !section.found:
		return profileSettings{}, nil
	case section.badLine != 0:
		return profileSettings{}, fmt.Errorf("awsretry: %s line %d, in %s, cannot be read: %s; allowed are NAME = VALUE, NAME: VALUE, [SECTION], a line that begins with # or ;, "+
			"and under a value the lines indented deeper than it that continue it", f.path, section.badLine, section.header, section.badReason)
	}
	return section.settings(f.path)
}

// readConfigFile returns the file's text, "" where there is no such file.
func readConfigFile(path string) (string, error) {
	file, size, err := openRegular(path)
	// ENOTDIR: a HOME of /dev/null, as daemons have it, makes for a path that leads through a file.
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("awsretry: %w", err)
	}
	defer file.Close()

	var text strings.Builder
	text.Grow(int(min(size, maxConfigFileSize)))
	n, err := io.Copy(&text, io.LimitReader(file, maxConfigFileSize+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("awsretry: %w", err)
	case n > maxConfigFileSize:
		return "", fmt.Errorf("awsretry: %s is larger than %d bytes, the most that is read of a config or credentials file", path, maxConfigFileSize)
	}
	return text.String(), nil
}

// openRegular opens a regular file or the null device. Nothing else is opened:
// a named pipe would wait for its writer.
func openRegular(path string) (file *os.File, size int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() && !isNullDevice(info) {
		fault := errors.New("it is " + kindOf(info.Mode()) + "; a config or credentials file must be a regular file")
		return nil, 0, &fs.PathError{Op: "open", Path: path, Err: fault}
	}
	file, err = os.Open(path)
	return file, info.Size(), err
}

func isNullDevice(info fs.FileInfo) bool {
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(info, null)
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// A profileSection is what stands under one spelling of the chosen profile's header, merged where that stands twice.
type profileSection struct {
	header                 string
	found                  bool
	retryMode, maxAttempts property
	badLine                int // the first line that cannot be read; 0: there is none
	badReason              string
}

// A property is the last line that sets a key, not judged yet.
type property struct {
	key, value  string // the key as written; "": the key is not set
	continuedAt int    // see setting
}

// findProfile returns the section of the named profile, and whether the text
// has any section. It looks at each line once.
//
// Sections, comments and indented lines are told apart here and not by ini.v1,
// because the rules of AWS differ: there a comment inside a value wants white
// space of either kind before it, a line indented deeper than the property
// above continues that whatever its value, a dot in a profile's name makes no
// child of another one, and a line that cannot be read spoils its own profile
// only. Of indented lines the AWS CLI's reading is followed, which is Python's:
// one that has no property of its section above it, or is indented no deeper
// than that, stands for itself.
func (f sharedFile) findProfile(text, name string) (section profileSection, inSection bool) {
	const noProperty = math.MaxInt
	bare := profileSection{header: "[" + name + "]"}
	worded := profileSection{header: "[profile " + name + "]"}
	// chosen returns the chosen profile's section that the header names, nil
	// where it names another one.
	chosen := func(header string) *profileSection {
		switch profile, word := parseHeader(header); {
		case profile != name:
		case word && f.isConfig:
			return &worded
		case !word && (!f.isConfig || name == defaultProfile):
			return &bare
		}
		return nil
	}
	var current *profileSection // nil outside the chosen profile
	indentAbove := noProperty   // of the property above, which a line indented deeper continues
	var above *property         // that property where it is one of the two, else nil
	for number, line := range configLines(text) {
		line, indent := cutIndent(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
			// Neither ends the property above.
		case indent > indentAbove:
			above.continueWith(number, line)
		case line[0] == '[' && strings.Contains(line, "]"):
			header, _, _ := strings.Cut(line[1:], "]") // no profile's name holds a ]
			inSection, indentAbove, above, current = true, noProperty, nil, chosen(header)
			current.open()
		default:
			key, value, reason := cutProperty(line)
			indentAbove, above = noProperty, nil
			if inSection && key != "" {
				indentAbove = indent
			}
			if reason != "" {
				// The settings below a header that lacks a bracket would go
				// unnoticed.
				if header, ok := brokenHeader(line); ok && chosen(header) != nil {
					current = chosen(header)
					current.open()
				}
				current.spoil(number, reason)
			} else if above = current.property(key); above != nil {
				*above = property{key: key, value: value}
			}
		}
	}
	if worded.found {
		return worded, inSection // [profile default] replaces [default]
	}
	return bare, inSection
}

// configLines yields the lines of text with their numbers, from 1. A line ends with LF, CRLF or CR.
func configLines(text string) iter.Seq2[int, string] {
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

// cutIndent returns the line without white space around it, and how many characters of that stood before it.
func cutIndent(line string) (trimmed string, indent int) {
	trimmed = strings.TrimLeftFunc(line, unicode.IsSpace)
	return strings.TrimSpace(trimmed), utf8.RuneCountInString(line[:len(line)-len(trimmed)])
}

// parseHeader returns the name of the profile in a section's header, the text between the brackets, or "" where it is
// not the name of one; and whether the word profile stands before it.
func parseHeader(header string) (name string, word bool) {
	header = strings.TrimSpace(header)
	if rest, ok := strings.CutPrefix(header, "profile"); ok && rest != "" && isSpace(rest) {
		header, word = strings.TrimSpace(rest), true
	}
	if n := len(header); n >= 2 && header[0] == header[n-1] && (header[0] == '"' || header[0] == '\'') {
		header = header[1 : n-1]
	}
	for _, r := range header {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(profileNamePunctuation, r) {
			return "", word
		}
	}
	return header, word
}

// brokenHeader returns the text of a header that lacks one of its brackets.
func brokenHeader(line string) (header string, ok bool) {
	line = cutComment(line)
	header = strings.Trim(line, "[]")
	return header, header != line
}

// cutProperty takes a trimmed line apart at the first = or :, as the AWS CLI does; the key is "" where it is no property.
// The reason why it cannot be read is "" where it can.
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
	}
	key, value = strings.TrimSpace(line[:delimiter]), cutComment(line[delimiter+1:])
	switch {
	case key == "":
		return "", "", "it has no name before the " + line[:1]
	case !utf8.ValidString(key) || !utf8.ValidString(value):
		return key, value, "it is not UTF-8 text"
	}
	return key, value, ""
}

// cutComment returns the value without the comment behind it and without white space around it.
func cutComment(value string) string {
	for i := 1; i < len(value); i++ {
		if (value[i] == '#' || value[i] == ';') && (value[i-1] == ' ' || value[i-1] == '\t') {
			value = value[:i]
			break
		}
	}
	return strings.TrimSpace(value)
}

// isBlank reports whether the text has only comments and empty lines.
func isBlank(text string) bool {
	for _, line := range configLines(text) {
		if line, _ := cutIndent(line); line != "" && line[0] != '#' && line[0] != ';' {
			return false
		}
	}
	return true
}

func isSpace(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsSpace(r)
}

// open notes that the section stands in the file. A nil s, here and below, is one that is not the chosen profile's.
func (s *profileSection) open() {
	if s != nil {
		s.found = true
	}
}

// property returns the place of the key, nil where it is neither of the two.
func (s *profileSection) property(key string) *property {
	switch {
	case s == nil:
		return nil
	case sameWord(key, retryModeKey):
		return &s.retryMode
	case sameWord(key, maxAttemptsKey):
		return &s.maxAttempts
	}
	return nil
}

// spoil notes a line that cannot be read.
func (s *profileSection) spoil(line int, reason string) {
	if s != nil && s.badLine == 0 {
		s.badLine, s.badReason = line, reason
	}
}

// continueWith adds a line that continues p, which is nil where it is neither of the two. White space at a value's start
// does not count, a line's end included, so that a value may begin on the second line; on a third, or behind a first, it
// makes a value that neither key can have.
func (p *property) continueWith(number int, line string) {
	if p == nil || p.continuedAt != 0 {
		return
	}
	if p.value == "" {
		p.value = cutComment(line)
	} else {
		p.continuedAt = number
	}
}

// settings parses the section's two properties.
//
// ini.v1 gets these and no others: it searches the list of a section's keys whenever it adds one, so that its time grows
// with their number's square.
func (s *profileSection) settings(path string) (profileSettings, error) {
	result := profileSettings{found: true}
	if s.retryMode.key == "" && s.maxAttempts.key == "" {
		return result, nil
	}
	file, err := ini.LoadSources(ini.LoadOptions{
		InsensitiveKeys:     true,
		KeyValueDelimiters:  "=",  // iniLine's, whichever the file has
		IgnoreContinuation:  true, // a \ at the end of a line is part of the value
		IgnoreInlineComment: true, // it knows them after a space, not after a tab, and looks for # before ;
	}, []byte("[profile]\n"+s.retryMode.iniLine()+s.maxAttempts.iniLine()))
	if err != nil {
		return result, fmt.Errorf("awsretry: %s %s: %w", path, s.header, err)
	}
	values := file.Section("profile")
	set := func(p property, key string) setting {
		if p.key == "" {
			return setting{}
		}
		// Value and not String, which would expand %(name)s.
		text := strings.TrimPrefix(values.Key(key).Value(), valueGuard)
		return setting{text: text, from: path + " " + s.header + " " + key, continuedAt: p.continuedAt}
	}
	result.retryMode = set(s.retryMode, retryModeKey)
	result.maxAttempts = set(s.maxAttempts, maxAttemptsKey)
	return result, nil
}

// valueGuard stands before each value that ini.v1 gets, so that none begins with a quote: quotes are part of the value,
// but ini.v1 takes a ` or """ for one that may go on over the lines below, and has no option against that.
const valueGuard = "="

func (p property) iniLine() string {
	if p.key == "" {
		return ""
	}
	return p.key + "=" + valueGuard + p.value + "\n"
}
