package scenario

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"example.com/awsretry/cmd/awsretry/internal/regular"
)

//go:embed ready/*.yaml
var ready embed.FS

// Names returns the names of the ready scenarios in alphabetical order.
func Names() []string {
	files, _ := fs.Glob(ready, "ready/*.yaml") // the pattern is well-formed
	for i, file := range files {
		files[i] = strings.TrimSuffix(path.Base(file), ".yaml")
	}
	slices.Sort(files)
	return files
}

// Source returns the file of a ready scenario, which explains every field.
func Source(name string) ([]byte, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("simulate: there is no ready scenario %s; there are %s",
			clipped(name), strings.Join(Names(), ", "))
	}
	return ready.ReadFile("ready/" + name + ".yaml")
}

// Ready returns a ready scenario.
func Ready(name string) (Scenario, error) {
	text, err := Source(name)
	if err != nil {
		return Scenario{}, err
	}
	return Parse(text)
}

// Read returns the scenario in a file: see [Parse].
func Read(file string) (Scenario, error) {
	text, err := regular.Read(file)
	if err != nil {
		return Scenario{}, fmt.Errorf("simulate: %w", err)
	}
	s, err := Parse(text)
	if err != nil {
		return Scenario{}, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// maxScenarioDepth limits the nesting of brackets.
const maxScenarioDepth = 100

// Parse reads a scenario from YAML, of which JSON is a subset, and validates
// it. An unknown field is an error. The errors have the line and the column of
// what is wrong.
func Parse(text []byte) (s Scenario, err error) {
	switch {
	case len(text) > regular.MaxSize:
		return Scenario{}, fmt.Errorf("simulate: the scenario has %d bytes; it must have at most %d",
			len(text), regular.MaxSize)
	case tooDeep(text):
		return Scenario{}, fmt.Errorf("simulate: the scenario nests more than %d brackets", maxScenarioDepth)
	}
	defer func() { // the YAML parser panics on some malformed texts
		if p := recover(); p != nil {
			s, err = Scenario{}, fmt.Errorf("simulate: the scenario is not YAML: %v", p)
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(text), strict...)
	switch err := decoder.Decode(&s); {
	case errors.Is(err, io.EOF):
		return Scenario{}, errors.New(
			"simulate: the scenario is empty; it must have at least duration, clients and service")
	case err != nil:
		return Scenario{}, fmt.Errorf("simulate: %w", explain(err, text))
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return Scenario{}, errors.New("simulate: the file continues after a line of ---; it must be one scenario")
	}
	faults := s.faults()
	locate(faults, text)
	return s, joined(faults)
}

// strict are the decoder's options. Without the second one it would cut off the
// fraction of a number for an int field.
var strict = []yaml.DecodeOption{yaml.Strict(), yaml.CustomUnmarshaler(wholeNumber)}

func wholeNumber(n *int, text []byte) error {
	v, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil {
		return fraction(bytes.TrimSpace(text))
	}
	*n = v
	return nil
}

// tooDeep reports whether brackets nest so deep that parsing them would take
// long or overflow the stack. It also counts brackets in strings and comments.
func tooDeep(text []byte) bool {
	depth := 0
	for _, b := range text {
		switch b {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		if depth > maxScenarioDepth {
			return true
		}
	}
	return false
}

// UnmarshalYAML reads the short form or the long one.
func (s *Setting) UnmarshalYAML(unmarshal func(any) error) error {
	var short string
	if unmarshal(&short) == nil {
		parsed, err := parseSetting(short)
		if err != nil {
			return &shortForm{short, err}
		}
		*s = parsed
		return nil
	}
	type long Setting
	return unmarshal((*long)(s))
}
