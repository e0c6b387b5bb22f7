package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// A mutation replaces a fragment of a file.
type mutation struct {
	line  int      // in the list
	rules []string // such as "KT: `maxBackoff` 20 s, applied before the jitter", "invariant 4: …", or "also: …"
	tests []string // that are to notice, apart from those of the rules' rows
	file  string

	old, new string
	reason   string // why there is nothing to mutate; then file is ""
}

var (
	rulePattern = regexp.MustCompile(`^(REF|GR|KT|SNS|SDB|SDK|invariant \d+|also): `)
	testPattern = regexp.MustCompile(`^(Test|Fuzz|Example)[A-Z_]\w*( (Test|Fuzz|Example)[A-Z_]\w*)*$`)
	filePattern = regexp.MustCompile(`^[\w./-]+\.go$`)
)

// readMutations reads a list: blocks of lines with blank lines between.
// A block has rules, names of tests, a file, and lines that begin with - and +.
// A line that begins with # is a comment, and one that begins with ! says why a
// rule has no mutation.
func readMutations(name string) ([]*mutation, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var list []*mutation
	m := new(mutation)
	var old, replacement []string
	finish := func() error {
		m.old, m.new = strings.Join(old, "\n"), strings.Join(replacement, "\n")
		switch {
		case len(m.rules) == 0 && m.file == "":
			return nil
		case len(m.rules) == 0, (m.file == "") == (m.reason == ""), m.file != "" && (m.old == "" || m.old == m.new):
			return fmt.Errorf("%s:%d: a mutation needs a rule, a file, and a fragment that is replaced", name, m.line)
		}
		list = append(list, m)
		m, old, replacement = new(mutation), nil, nil
		return nil
	}
	for i, line := range strings.Split(string(text), "\n") {
		if m.line == 0 {
			m.line = i + 1
		}
		switch {
		case strings.HasPrefix(line, "#"):
		case line == "":
			if err := finish(); err != nil {
				return nil, err
			}
			m.line = 0
		case strings.HasPrefix(line, "-"):
			old = append(old, line[1:])
		case strings.HasPrefix(line, "+"):
			replacement = append(replacement, line[1:])
		case strings.HasPrefix(line, "! "):
			m.reason = line[2:]
		case rulePattern.MatchString(line):
			m.rules = append(m.rules, line)
		case testPattern.MatchString(line):
			m.tests = append(m.tests, strings.Fields(line)...)
		case filePattern.MatchString(line) && m.file == "":
			m.file = line
		default:
			return nil, fmt.Errorf("%s:%d: cannot read %q", name, i+1, line)
		}
	}
	return list, finish()
}

func (m *mutation) matches(wanted *regexp.Regexp) bool {
	return wanted.MatchString(m.file) || slices.ContainsFunc(m.rules, wanted.MatchString)
}

// String returns the mutation as it is printed.
func (m *mutation) String() string {
	var b strings.Builder
	for _, rule := range m.rules {
		fmt.Fprintf(&b, "%s\n", rule)
	}
	if m.reason != "" {
		fmt.Fprintf(&b, "  no mutation: %s\n", m.reason)
		return b.String()
	}
	fmt.Fprintf(&b, "  %s\n", m.file)
	for line := range strings.SplitSeq(m.old, "\n") {
		fmt.Fprintf(&b, "  - %s\n", strings.TrimSpace(line))
	}
	if m.new != "" {
		for line := range strings.SplitSeq(m.new, "\n") {
			fmt.Fprintf(&b, "  + %s\n", strings.TrimSpace(line))
		}
	}
	return b.String()
}
