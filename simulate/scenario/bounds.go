package scenario

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The limits of a scenario's text. The YAML library takes time and memory that
// grow faster than the text, and more stack than there is, for texts that no
// one writes by hand.
const (
	maxTextSize    = 64 << 10 // bytes
	maxDepth       = 50       // brackets that are open at the same time
	maxIndentation = 100      // spaces before a line's text
	maxChain       = 10       // values that begin in one another, as in "- - - a"
	maxBlankLines  = 100      // one after the other
	maxMarks       = 100      // anchors, aliases, tags and directives
)

// parse returns the syntax tree of a text that is within the limits.
func parse(text []byte) (*ast.File, error) {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n")) // a line's end too
	if err := checkLines(text); err != nil {
		return nil, err
	}
	tokens := lexer.Tokenize(string(text))
	if err := checkTokens(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, brief(err)
	}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if err := checkAnchors(doc.Body); err != nil {
			return nil, err
		}
	}
	return file, nil
}

// checkLines checks what the tokenizer needs to be fast.
func checkLines(text []byte) error {
	if len(text) > maxTextSize {
		return fmt.Errorf("the scenario has %d bytes; it must have at most %d", len(text), maxTextSize)
	}
	blank, number := 0, 0
	for line := range bytes.Lines(text) {
		number++
		rest := bytes.TrimLeft(line, " \t")
		if len(line)-len(rest) > maxIndentation {
			return fmt.Errorf("[%d:1] the line is indented by more than %d characters", number, maxIndentation)
		}
		if blank++; len(bytes.TrimSpace(rest)) > 0 {
			blank = 0
		}
		if blank > maxBlankLines {
			return fmt.Errorf("[%d:1] more than %d blank lines follow one another", number, maxBlankLines)
		}
	}
	return nil
}

// checkTokens checks what the parser needs so that its stack does not
// overflow. Without brackets a value that is deeper begins further to the
// right, so that the indentation and the chains limit the depth.
func checkTokens(tokens token.Tokens) error {
	depth, chain, marks, line := 0, 0, 0, 0
	for _, t := range tokens {
		if depth == 0 && t.Position.Line != line {
			chain, line = 0, t.Position.Line
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth, chain = depth+1, 0
		case token.SequenceEndType, token.MappingEndType:
			depth, chain = max(depth-1, 0), 0
		case token.CollectEntryType:
			chain = 0
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType:
			chain++
		case token.AnchorType, token.AliasType, token.TagType, token.DirectiveType:
			marks++
		}
		at := fmt.Sprintf("[%d:%d] ", t.Position.Line, t.Position.Column)
		switch {
		case depth > maxDepth:
			return fmt.Errorf("%sthe scenario nests more than %d brackets", at, maxDepth)
		case chain > maxChain:
			return fmt.Errorf("%smore than %d values begin in one another", at, maxChain)
		case marks > maxMarks:
			return fmt.Errorf("%sthe scenario has more than %d anchors, aliases, tags and directives", at, maxMarks)
		}
	}
	return nil
}

var errNested = errors.New("an anchor contains another anchor or an alias")

// checkAnchors checks that an alias stands for a value without aliases. Others
// could stand for themselves, or for more than memory holds.
func checkAnchors(body ast.Node) error {
	var err error
	ast.Walk(visitor(func(node ast.Node) bool {
		if anchor, ok := node.(*ast.AnchorNode); ok && err == nil && anchor.Value != nil {
			ast.Walk(visitor(func(inner ast.Node) bool {
				switch inner.(type) {
				case *ast.AnchorNode, *ast.AliasNode:
					err = fmt.Errorf("%s%w", position(anchor), errNested)
				}
				return err == nil
			}), anchor.Value)
		}
		return err == nil
	}), body)
	return err
}

// A visitor is an [ast.Visitor] that visits the children of a node if it
// returns true.
type visitor func(ast.Node) bool

// Visit implements [ast.Visitor].
func (v visitor) Visit(node ast.Node) ast.Visitor {
	if !v(node) {
		return nil
	}
	return v
}
