package simulate

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// locate returns an error that names the first field whose value cannot be
// decoded, or nil if it finds none. The errors of the YAML decoder name the Go
// type, and not always the line.
func locate(text []byte) error {
	file, err := parser.ParseBytes(text, 0)
	if err != nil || len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil
	}
	return misfit("", file.Docs[0].Body, reflect.TypeFor[Scenario]())
}

// misfit returns an error about the first value in a node that does not fit
// into a type.
func misfit(path string, node ast.Node, t reflect.Type) error {
	switch n := node.(type) {
	case *ast.AnchorNode:
		return misfit(path, n.Value, t)
	case *ast.TagNode, *ast.AliasNode:
		return nil // its value is elsewhere, or converted
	case *ast.NullNode:
		return nil
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	short := t == reflect.TypeFor[Setting]() && node.Type() == ast.StringType
	switch {
	case t.Kind() == reflect.Struct && !short:
		return misfitField(path, node, t)
	case t.Kind() == reflect.Slice:
		list, ok := node.(*ast.SequenceNode)
		if !ok {
			return unfit(path, node, "a list")
		}
		for i, item := range list.Values {
			if err := misfit(fmt.Sprintf("%s[%d]", path, i), item, t.Elem()); err != nil {
				return err
			}
		}
		return nil
	}
	value := reflect.New(t).Interface()
	err := yaml.NodeToValue(node, value, yaml.CustomUnmarshaler(wholeNumber))
	switch {
	case err == nil:
		return nil
	case short:
		return fmt.Errorf("%s%s: %w", path, inLine(node), err)
	}
	return unfit(path, node, allowedValues(t))
}

// misfitField is misfit for the fields of a mapping.
func misfitField(path string, node ast.Node, t reflect.Type) error {
	mapping, ok := node.(ast.MapNode)
	if !ok {
		if path == "" {
			path = "the scenario"
		}
		return unfit(path, node, "fields, each written as NAME: VALUE")
	}
	for entries := mapping.MapRange(); entries.Next(); {
		for i := range t.NumField() {
			field := t.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			if name != entries.Key().String() {
				continue
			}
			if err := misfit(strings.TrimPrefix(path+"."+name, "."), entries.Value(), field.Type); err != nil {
				return err
			}
		}
	}
	return nil
}

func unfit(path string, node ast.Node, allowed string) error {
	value := node.String()
	if token := node.GetToken(); token != nil && !isCollection(node) {
		value = token.Value
	}
	return fmt.Errorf("%s is %s%s; it must be %s", path, clipped(value), inLine(node), allowed)
}

func isCollection(node ast.Node) bool {
	switch node.Type() {
	case ast.MappingType, ast.MappingValueType, ast.SequenceType:
		return true
	}
	return false
}

// inLine says in which line a node stands.
func inLine(node ast.Node) string {
	token := node.GetToken()
	if token == nil || token.Position == nil {
		return ""
	}
	return fmt.Sprintf(" (line %d)", token.Position.Line)
}

// allowedValues are the values that a type has.
func allowedValues(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int64:
		return "a number with its unit, as in 90s, 1m30s or 250ms" // a Duration
	case reflect.Int:
		return fmt.Sprintf("a whole number, at most %d", math.MaxInt)
	case reflect.Uint64:
		return fmt.Sprintf("a whole number, 0 to %d", uint64(math.MaxUint64))
	case reflect.Float64:
		return "a finite number"
	case reflect.Bool:
		return "true or false"
	}
	return "text"
}
