package scenario

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"example.com/awsretry/internal/regularfile"
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
	text, err := regularfile.Read(file)
	if err != nil {
		return Scenario{}, fmt.Errorf("simulate: %w", err)
	}
	s, err := Parse(text)
	if err != nil {
		return Scenario{}, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// Parse reads a scenario from YAML, of which JSON is a subset, and validates
// it. An unknown field is an error. The errors have the line and the column of
// what is wrong. A text that is long, deep or full of aliases is an error too.
func Parse(text []byte) (s Scenario, err error) {
	defer func() { // the YAML parser panics on some malformed texts
		if p := recover(); p != nil {
			s, err = Scenario{}, fmt.Errorf("simulate: the scenario is not YAML: %v", p)
		}
	}()
	file, err := parse(text)
	if err != nil {
		return Scenario{}, fmt.Errorf("simulate: %w", err)
	}
	docs := slices.DeleteFunc(file.Docs, func(d *ast.DocumentNode) bool { return d.Body == nil })
	switch {
	case len(docs) == 0:
		return Scenario{}, errors.New(
			"simulate: the scenario is empty; it must have at least duration, clients and service")
	case len(docs) > 1:
		return Scenario{}, errors.New("simulate: the file continues after a line of ---; it must be one scenario")
	}
	body := docs[0].Body
	decoder := yaml.NewDecoder(strings.NewReader(""), strict...)
	if err := decoder.DecodeFromNode(body, &s); err != nil {
		return Scenario{}, fmt.Errorf("simulate: %w", explain(err, body))
	}
	faults := s.faults()
	locate(faults, body)
	return s, joined(faults)
}

// strict are the decoder's options. Without the last two it would cut off the
// fraction of a whole number.
var strict = []yaml.DecodeOption{
	yaml.Strict(), yaml.CustomUnmarshaler(wholeNumber), yaml.CustomUnmarshaler(wholeSeed),
}

func wholeNumber(n *int, text []byte) error {
	v, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil {
		return fraction{string(bytes.TrimSpace(text)), allowedWhole}
	}
	*n = v
	return nil
}

func wholeSeed(n *uint64, text []byte) error {
	v, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return fraction{string(bytes.TrimSpace(text)), allowedSeed}
	}
	*n = v
	return nil
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
