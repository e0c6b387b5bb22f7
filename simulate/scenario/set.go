package scenario

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Set returns s with another value in a line of its file. The path is that of the
// field, as in service.capacity or events[0].from, and the value is as in the
// file. An empty value omits the field.
func Set(s Scenario, path, value string) (Scenario, error) {
	text, err := Marshal(s, nil)
	if err != nil {
		return s, err
	}
	var root, document yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return s, fmt.Errorf("simulate: %w", err)
	}
	if err := yaml.Unmarshal([]byte(value), &document); err != nil {
		return s, fmt.Errorf("simulate: the value %s: %w", clipped(value), err)
	}
	var to *yaml.Node
	if len(document.Content) > 0 {
		to = document.Content[0]
	}
	if err := assign(root.Content[0], path, to); err != nil {
		return s, fmt.Errorf("simulate: %s: %w", clipped(path), err)
	}
	if text, err = yaml.Marshal(&root); err != nil {
		return s, fmt.Errorf("simulate: %w", err)
	}
	changed, err := Parse(text)
	if err != nil { // its positions are in a file that nobody has seen
		err = errors.New(positions.ReplaceAllString(err.Error(), ""))
	}
	return changed, err
}

var positions = regexp.MustCompile(`\[\d+:\d+\] `)

// assign sets the node at a path, or removes it if to is nil.
func assign(n *yaml.Node, path string, to *yaml.Node) error {
	name, rest, nested := strings.Cut(path, ".")
	name, index, indexed := strings.Cut(name, "[")
	if n.Kind != yaml.MappingNode || name == "" {
		return errors.New("there is no such line; it must be a path such as service.capacity or events[0].from")
	}
	i := 1
	for i < len(n.Content) && n.Content[i-1].Value != name {
		i += 2
	}
	if i >= len(n.Content) {
		if to == nil {
			return nil
		}
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, &yaml.Node{Kind: yaml.MappingNode})
	}
	child := n.Content[i]
	if indexed {
		element, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
		if err != nil || child.Kind != yaml.SequenceNode || element < 0 || element >= len(child.Content) {
			return fmt.Errorf("%s[%s is not in the list, which has %d elements", name, index, len(child.Content))
		}
		if !nested && to == nil {
			child.Content = slices.Delete(child.Content, element, element+1)
			return nil
		}
		if !nested {
			child.Content[element] = to
			return nil
		}
		return assign(child.Content[element], rest, to)
	}
	switch {
	case nested:
		return assign(child, rest, to)
	case to == nil:
		n.Content = slices.Delete(n.Content, i-1, i+1)
	default:
		n.Content[i] = to
	}
	return nil
}

// WithDuration returns s with another duration. What changes over time repeats or
// ends early.
func (s Scenario) WithDuration(d Duration) Scenario {
	s.Duration = d
	if s.OverTime == nil || s.OverTime.Every <= 0 {
		return s
	}
	o := *s.OverTime
	steps := int((d + o.Every - 1) / o.Every)
	for _, list := range []*[]float64{&o.Rate, &o.Throttled, &o.Errors, &o.Latency} {
		if len(*list) == 0 {
			continue
		}
		var repeated []float64
		for i := range steps {
			repeated = append(repeated, (*list)[i%len(*list)])
		}
		*list = repeated
	}
	s.OverTime = &o
	return s
}
