package scenario

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

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
	text, err := regularfile.ReadAtMost(file, maxTextSize)
	if err != nil {
		return Scenario{}, fmt.Errorf("simulate: %w", err)
	}
	s, err := Parse(text)
	if err != nil {
		return Scenario{}, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// maxTextSize is the size of the longest scenario file, in bytes.
const maxTextSize = 64 << 10

// Parse reads a scenario from YAML, of which JSON is a subset, and validates it. An
// unknown field is an error. Errors begin with the line and the column.
func Parse(text []byte) (Scenario, error) {
	if len(text) > maxTextSize {
		return Scenario{}, fmt.Errorf("simulate: the scenario has %d bytes; it must have at most %d", len(text), maxTextSize)
	}
	var document, second yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(text))
	err := in.Decode(&document)
	switch {
	case errors.Is(err, io.EOF) || err == nil && document.Content[0].Tag == "!!null":
		return Scenario{}, errors.New(
			"simulate: the scenario is empty; it must have at least duration, clients and service")
	case err != nil:
		return Scenario{}, fmt.Errorf("simulate: %w", err)
	case !errors.Is(in.Decode(&second), io.EOF):
		return Scenario{}, errors.New("simulate: the file continues after a line of ---; it must be one scenario")
	}
	var s Scenario
	d := decoder{at: map[string]*yaml.Node{}}
	d.decode(document.Content[0], reflect.ValueOf(&s).Elem(), "")
	if d.nodes > maxNodes {
		return Scenario{}, errAliases
	}
	faults := d.faults[:min(len(d.faults), maxFaults)]
	if len(faults) == 0 {
		faults = s.faults()
	}
	d.locate(faults)
	return s, joined(faults)
}

// Marshal returns the file of a scenario.
func Marshal(s Scenario) ([]byte, error) {
	var text bytes.Buffer
	out := yaml.NewEncoder(&text)
	out.SetIndent(2)
	if err := out.Encode(s); err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	return text.Bytes(), nil
}
