package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// A misfit is the error for a value that its field cannot have.
type misfit struct {
	token   *token.Token
	allowed string
}

// unfit returns the error for the value of a node.
func unfit(node ast.Node, allowed string) error { return &misfit{node.GetToken(), allowed} }

func (m *misfit) Error() string {
	return fmt.Sprintf("%s must be %s", clipped(m.token.Value), m.allowed)
}

// A fraction is the error for a value that is not a whole number. The decoder
// does not say where it is.
type fraction struct{ text, allowed string }

func (f fraction) Error() string { return fmt.Sprintf("%s must be %s", clipped(f.text), f.allowed) }

// A shortForm is the error for the short form of a setting. The decoder does
// not say where it is.
type shortForm struct {
	text string
	error
}

// explain describes an error of the YAML decoder without Go's types: the
// position and the name of the field, its value and what is allowed. Errors
// that need no description are returned without the library's excerpt.
func explain(err error, body ast.Node) error {
	is, allowed := culprit(err)
	if is == nil {
		return brief(err)
	}
	all := values(body)
	i := slices.IndexFunc(all, is)
	if i < 0 {
		return brief(err)
	}
	node, field := all[i], cmp.Or(fieldOf(all[i]), "the scenario")
	if allowed == "" {
		return fmt.Errorf("%s%s: %w", position(node), field, err)
	}
	return fmt.Errorf("%s%s is %s; it must be %s", position(node), field, clipped(written(node)), allowed)
}

// brief returns an error of the YAML library with its position, but without the
// lines around it, which may be the whole text.
func brief(err error) error {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil {
		return err
	}
	p := e.GetToken().Position
	return fmt.Errorf("[%d:%d] %.200s", p.Line, p.Column, e.GetMessage())
}

// culprit returns a function that reports whether a value is the one that an
// error of the YAML decoder is about, and what is allowed in its place. The
// function is nil if the error has a position of its own, and allowed is "" if
// the error says what is allowed.
func culprit(err error) (is func(ast.Node) bool, allowed string) {
	at := func(t *token.Token) func(ast.Node) bool {
		return func(n ast.Node) bool { return n.GetToken().Position.Offset == t.Position.Offset }
	}
	var (
		wrong    *misfit
		part     fraction
		short    *shortForm
		kind     *yaml.TypeError
		overflow *yaml.OverflowError
		shape    *yaml.UnexpectedNodeTypeError
	)
	switch {
	case errors.As(err, &wrong):
		return at(wrong.token), wrong.allowed
	case errors.As(err, &part):
		return func(n ast.Node) bool {
			return wholeField(fieldOf(n)) == part.allowed && written(n) == part.text
		}, part.allowed
	case errors.As(err, &short):
		setting := func(n ast.Node) bool { return strings.HasPrefix(fieldOf(n), "settings[") }
		return func(n ast.Node) bool { return setting(n) && written(n) == short.text }, ""
	case errors.As(err, &kind):
		return at(kind.Token), allowedValues(kind.DstType)
	case errors.As(err, &overflow):
		return at(overflow.Token), allowedValues(overflow.DstType)
	case errors.As(err, &shape) && shape.Expected == ast.SequenceType:
		return at(shape.Token), "a list"
	case shape != nil:
		return at(shape.Token), "fields, each written as NAME: VALUE"
	}
	return nil, ""
}

// values returns all values in a document, from its beginning to its end.
func values(body ast.Node) []ast.Node {
	var all collector
	ast.Walk(&all, body)
	return all
}

type collector []ast.Node

// Visit implements ast.Visitor.
func (c *collector) Visit(node ast.Node) ast.Visitor {
	switch n := node.(type) {
	case *ast.MappingValueNode:
		ast.Walk(c, n.Value) // but not its key, which has the same path
		return nil
	case *ast.AnchorNode:
		ast.Walk(c, n.Value)
		return nil
	}
	if node.GetToken() != nil {
		*c = append(*c, node)
	}
	return c
}

// position returns where a node is, in the form of the YAML decoder's errors.
func position(node ast.Node) string {
	p := node.GetToken().Position
	return fmt.Sprintf("[%d:%d] ", p.Line, p.Column)
}

// written returns a value as it is written in the file.
func written(node ast.Node) string {
	switch node.Type() {
	case ast.MappingType, ast.SequenceType:
		return node.String()
	}
	return node.GetToken().Value
}

// locate sets the position of each fault: that of its field in the document, or of
// the nearest field around it that is there.
func locate(faults []fault, body ast.Node) {
	if len(faults) == 0 {
		return
	}
	at := map[string]ast.Node{}
	for _, node := range values(body) {
		at[fieldOf(node)] = node
	}
	for i := range faults {
		for field := faults[i].field; field != ""; field = field[:max(strings.LastIndexAny(field, ".["), 0)] {
			if node := at[field]; node != nil {
				faults[i].position = position(node)
				break
			}
		}
	}
}

// fieldOf returns the path of a node's field, as in events[0].from.
func fieldOf(node ast.Node) string {
	return strings.TrimPrefix(strings.TrimPrefix(node.GetPath(), "$"), ".")
}

const allowedWhole = "a whole number"

var allowedSeed = "a whole number, 0 to " + strconv.FormatUint(math.MaxUint64, 10)

// allowedValues describes the values of a type.
func allowedValues(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Uint64:
		return allowedSeed
	case reflect.Float64:
		return "a finite number"
	case reflect.Bool:
		return "true or false"
	}
	return "text"
}

// wholeField returns what a field that is a whole number allows, or "" for
// other fields.
func wholeField(field string) string {
	switch field[strings.LastIndexByte(field, '.')+1:] {
	case "seed":
		return allowedSeed
	case "count", "callers", "max_in_flight", "queue", "queue_full", "max_attempts", "quota_capacity":
		return allowedWhole
	}
	return ""
}
