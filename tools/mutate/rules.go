package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A mutation replaces a fragment of a file.
type mutation struct {
	rules          []string // such as "KT: `retryCost` 5", or "invariant 4: …"
	file, old, new string
	reason         string // why there is nothing to mutate
}

// readMutations reads blocks of lines with blank lines between. A block has
// rules, a file, and lines that begin with - and +. A line that begins with # is
// a comment, and one that begins with ! says why a rule has no mutation.
func readMutations(name string) (list []*mutation, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for block := range strings.SplitSeq(string(text), "\n\n") {
		m := new(mutation)
		var from, to []string
		for line := range strings.Lines(block) {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case line == "", line[0] == '#':
			case line[0] == '-':
				from = append(from, line[1:])
			case line[0] == '+':
				to = append(to, line[1:])
			case line[0] == '!':
				m.reason = line[1:]
			case strings.HasSuffix(line, ".go"):
				m.file = line
			default:
				m.rules = append(m.rules, line)
			}
		}
		m.old, m.new = strings.Join(from, "\n"), strings.Join(to, "\n")
		if len(m.rules) == 0 && m.file == "" {
			continue
		}
		if len(m.rules) == 0 || m.reason == "" && (m.file == "" || m.old == m.new || m.old == "") {
			return nil, fmt.Errorf("%s: a mutation needs a rule, a file, and a fragment that is replaced:\n%s", name, block)
		}
		list = append(list, m)
	}
	return list, nil
}

// String returns the mutation as it is printed.
func (m *mutation) String() string {
	return fmt.Sprintf("%s\n  %s\n  - %s\n  + %s\n", strings.Join(m.rules, "\n"), m.file,
		strings.ReplaceAll(m.old, "\n", "\n  - "), strings.ReplaceAll(m.new, "\n", "\n  + "))
}

// tests returns the tests of the mutation's rules.
func (m *mutation) tests(rules map[string][]string) (names []string) {
	for _, rule := range m.rules {
		names = append(names, rules[key(rule)]...)
	}
	return names
}

// key returns the key of a rule in the map of readRules. The rules of
// docs/ARCHITECTURE.md go by their number.
func key(rule string) string {
	if strings.HasPrefix(rule, "invariant ") {
		rule, _, _ = strings.Cut(rule, ":")
	}
	return rule
}

var testName = regexp.MustCompile("`((?:Test|Fuzz|Example)[A-Z_]\\w*)`")

// readRules returns the rules of the two documents with the tests that they name.
func readRules(root string) (map[string][]string, error) {
	rules := make(map[string][]string)
	add := func(rule, text string) {
		if rules[rule] == nil {
			rules[rule] = []string{}
		}
		for _, match := range testName.FindAllStringSubmatch(text, -1) {
			rules[rule] = append(rules[rule], match[1])
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "SOURCES.md"))
	if err != nil {
		return nil, err
	}
	section := ""
	for line := range strings.Lines(string(text)) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(heading)
		}
		if rule, rest, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && line[0] == '|' && rule != "rule" {
			add(section+": "+rule, rest)
		}
	}
	text, err = os.ReadFile(filepath.Join(root, "docs", "ARCHITECTURE.md"))
	if err != nil {
		return nil, err
	}
	_, list, _ := strings.Cut(string(text), "\n## The rules")
	list, _, _ = strings.Cut(list, "\n## ")
	number := regexp.MustCompile(`^(\d+)\. `)
	rule := ""
	for line := range strings.Lines(list) {
		if match := number.FindStringSubmatch(line); match != nil {
			rule = "invariant " + match[1]
		}
		if rule != "" {
			add(rule, line)
		}
	}
	return rules, nil
}

// compare returns what the list has too much and too little.
func compare(rules map[string][]string, list []*mutation) (faults []string) {
	mutated := make(map[string]int)
	for _, m := range list {
		for _, rule := range m.rules {
			if mutated[key(rule)]++; rules[key(rule)] == nil {
				faults = append(faults, fmt.Sprintf("no document has %q, or it names no test", rule))
			}
		}
	}
	for rule := range rules {
		if mutated[rule] != 1 {
			faults = append(faults, fmt.Sprintf("%q has %d mutations, it must have 1", rule, mutated[rule]))
		}
	}
	slices.Sort(faults)
	return faults
}
