package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A decoder sets a scenario from a YAML document. Unlike the decoder of package
// yaml, it knows the position of every field, reports what a field allows in the
// words of a scenario file, and does not truncate fractions.
type decoder struct {
	at     map[string]*yaml.Node // the value of each field, by its path
	faults []fault
	nodes  int // visited so far
}

// maxNodes limits the work that aliases of aliases cause, and maxFaults the
// number of errors.
const (
	maxNodes  = 20_000
	maxFaults = 20
)

var errAliases = errors.New("simulate: the scenario's aliases stand for too many values")

// Descriptions of what a field allows.
const (
	allowedFields   = "fields, each written as NAME: VALUE"
	allowedDuration = "a number with its unit, as in 90s, 1m30s or 250ms"
)

var allowedByKind = map[reflect.Kind]string{
	reflect.Int:     "a whole number",
	reflect.Int64:   allowedDuration,
	reflect.Uint64:  "a whole number, 0 to " + strconv.FormatUint(math.MaxUint64, 10),
	reflect.Float64: "a finite number",
	reflect.Bool:    "true or false",
	reflect.String:  "text",
	reflect.Slice:   "a list",
	reflect.Struct:  allowedFields,
}

// decode sets v, whose path is field, to the node's value.
func (d *decoder) decode(n *yaml.Node, v reflect.Value, field string) {
	if d.nodes++; d.nodes > maxNodes || len(d.faults) == maxFaults {
		return
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	d.at[field] = n
	if n.Tag == "!!null" {
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	setting, isSetting := v.Addr().Interface().(*Setting)
	switch kind := v.Kind(); {
	case isSetting && n.Kind == yaml.ScalarNode:
		var err error
		if *setting, err = parseSetting(n.Value); err != nil {
			d.faults = append(d.faults, fault{field: field, text: field + ": " + err.Error()})
		}
	case kind == reflect.Struct && n.Kind == yaml.MappingNode:
		d.fields(n, v, field)
	case kind == reflect.Slice && n.Kind == yaml.SequenceNode:
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, element := range n.Content {
			d.decode(element, v.Index(i), fmt.Sprintf("%s[%d]", field, i))
		}
	case n.Kind != yaml.ScalarNode || !scalar(n, v):
		text := fmt.Sprintf("%s is %s; it must be %s",
			cmp.Or(field, "the scenario"), clipped(written(n)), allowedByKind[kind])
		d.faults = append(d.faults, fault{text: text, position: position(n)})
	}
}

// scalar sets v to the value of a scalar node, and reports whether it fits.
func scalar(n *yaml.Node, v reflect.Value) bool {
	whole := v.Kind() == reflect.Int || v.Kind() == reflect.Uint64
	if whole && n.ShortTag() != "!!int" { // or else a fraction is cut off
		return false
	}
	return n.Decode(v.Addr().Interface()) == nil
}

// fields sets the fields of a struct, those of a merged mapping first.
func (d *decoder) fields(n *yaml.Node, v reflect.Value, path string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Tag == "!!merge" {
			d.decode(n.Content[i+1], v, path)
			d.at[path] = n
		}
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			continue
		}
		field, known := fieldByName(v, key.Value)
		switch {
		case key.Kind != yaml.ScalarNode || !known:
			d.faults = append(d.faults, fault{text: "unknown field " + clipped(written(key)), position: position(key)})
		case seen[key.Value]:
			d.faults = append(d.faults, fault{text: "repeated field " + clipped(key.Value), position: position(key)})
		default:
			seen[key.Value] = true
			d.decode(value, field, strings.TrimPrefix(path+"."+key.Value, "."))
		}
	}
}

// fieldByName returns the field of a struct that has the name in a file.
func fieldByName(v reflect.Value, name string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ","); tag == name && tag != "-" {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// locate sets the position of each fault that has none: that of its field, or
// of the nearest enclosing field that the document has.
func (d *decoder) locate(faults []fault) {
	for i, f := range faults {
		for field := f.field; field != "" && faults[i].position == ""; {
			if n := d.at[field]; n != nil {
				faults[i].position = position(n)
			}
			field = field[:max(strings.LastIndexAny(field, ".["), 0)]
		}
	}
}

// position returns the position of a node, with which errors begin.
func position(n *yaml.Node) string { return fmt.Sprintf("[%d:%d] ", n.Line, n.Column) }

// written returns a value as it is written in a file.
func written(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	text, _ := yaml.Marshal(n) // a node that was parsed
	return strings.TrimSpace(string(text))
}
