// Package attempts describes attempts to the user: a table with a row for each,
// and the words in it.
package attempts

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/term"
)

// A Table has a row for each attempt of a request.
type Table struct {
	W        io.Writer
	Palette  term.Palette
	Indent   string
	Width    int                           // as of term.Table
	Adaptive bool                          // with the columns of adaptive mode
	State    func() (awsretry.State, bool) // of the request's partition

	rows *term.Table // nil: no row yet
}

// Begun reports whether the table has rows.
func (t *Table) Begun() bool { return t.rows != nil }

// Row prints the row of an attempt. It is an observer for
// awsretry.WithObserver.
func (t *Table) Row(a awsretry.Attempt) {
	if t.rows == nil {
		t.rows = &term.Table{W: t.W, Indent: t.Indent, Width: t.Width, Columns: t.columns()}
		t.rows.Header(t.Palette.Faint)
	}
	class := t.Palette.Class(a.Class)
	state, known := t.State()
	cells := []string{strconv.Itoa(a.Number), class(Status(a)), class(a.Class), term.Duration(a.Elapsed)}
	if t.Adaptive {
		waited, rate := "-", "free"
		if a.Waited >= time.Millisecond/2 { // less is the time that asking takes
			waited = term.Duration(a.Waited)
		}
		if state.Limited {
			rate = fmt.Sprintf("%.1f/s", state.SendRate)
		}
		cells = append(cells, waited, rate)
	}
	tokens := "-"
	if known && state.Tokens != math.MaxInt {
		tokens = strconv.Itoa(state.Tokens)
	}
	next := nextStep(a)
	if a.Class.Retryable() && a.Stop != "" {
		next = t.Palette.Bad(next)
	}
	t.rows.Row(append(cells, tokens, next, term.OneLine(Details(a)))...)
}

func (t *Table) columns() []term.Column {
	columns := []term.Column{
		{Title: "#", Width: 3, Right: true},
		{Title: "STATUS", Width: 7},
		{Title: "CLASS", Width: 9, Spare: 1},
		{Title: "TIME", Width: 7, Right: true, Spare: 3},
	}
	if t.Adaptive {
		columns = append(columns,
			term.Column{Title: "WAITED", Width: 7, Right: true, Spare: 5},
			term.Column{Title: "RATE", Width: 7, Right: true, Spare: 4})
	}
	return append(columns,
		term.Column{Title: "TOKENS", Width: 6, Right: true, Spare: 2},
		term.Column{Title: "NEXT", Width: 22},
		term.Column{Title: "DETAIL"})
}
