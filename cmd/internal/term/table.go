package term

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// A Table is printed by its methods. No line is longer than Width. Cells may
// have colors.
type Table struct {
	W       io.Writer
	Indent  string
	Width   int // of the terminal; math.MaxInt: no limit
	Columns []Column
}

// A Column has a fixed width, because the rows that follow are not known yet. A
// last column of width 0 is as wide as its text, which is wrapped if it does not
// fit. A narrow table omits the column with the highest Spare first, and never
// omits those with a Spare of 0.
type Column struct {
	Title string
	Width int
	Right bool // its cells end at its right edge
	Spare int
}

const (
	gap = 2 // spaces between two columns

	minWrap     = 24 // in less room, a text that does not fit goes below its row
	belowIndent = 5  // of a text below its row
)

// Fit gives each column the width of its longest cell.
func (t *Table) Fit(rows iter.Seq[[]string]) {
	for i := range t.Columns {
		t.Columns[i].Width = text.StringWidth(t.Columns[i].Title)
	}
	for row := range rows {
		for i, cell := range row {
			t.Columns[i].Width = max(t.Columns[i].Width, text.StringWidthWithoutEscSequences(cell))
		}
	}
}

// Header prints the titles in a color.
func (t *Table) Header(color func(...any) string) {
	titles := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = color(c.Title)
	}
	t.Row(titles...)
}

// Row prints a row with a cell for each column. The last cells may be missing.
func (t *Table) Row(cells ...string) {
	line := t.Indent
	for n, i := range t.shown() {
		if i >= len(cells) {
			break
		}
		if n > 0 {
			line += strings.Repeat(" ", gap)
		}
		switch c := t.Columns[i]; {
		case c.Width == 0:
			t.open(line, cells[i])
			return
		case c.Right:
			line += text.AlignRight.Apply(cells[i], c.Width)
		default:
			line += text.AlignLeft.Apply(cells[i], c.Width)
		}
	}
	t.Line(line)
}

// shown returns the indices of the columns that fit.
func (t *Table) shown() []int {
	var columns []int
	width := text.StringWidth(t.Indent) - gap
	for i, c := range t.Columns {
		columns = append(columns, i)
		if c.Width > 0 {
			width += gap + c.Width
		}
	}
	for width > t.Width {
		spare := slices.MaxFunc(columns, func(a, b int) int { return t.Columns[a].Spare - t.Columns[b].Spare })
		if t.Columns[spare].Spare == 0 {
			break
		}
		columns = slices.DeleteFunc(columns, func(i int) bool { return i == spare })
		width -= gap + t.Columns[spare].Width
	}
	return columns
}

// open prints a line and the cell of a column without a width. A cell that does
// not fit is wrapped in its column or, if that is narrow, below the line.
func (t *Table) open(line, cell string) {
	start := text.StringWidthWithoutEscSequences(line)
	room := t.Width - start
	if cell == "" || text.StringWidthWithoutEscSequences(cell) <= room {
		t.Line(line + cell)
		return
	}
	if room < minWrap {
		t.Line(line)
		start = text.StringWidth(t.Indent) + belowIndent
		line, room = strings.Repeat(" ", start), max(t.Width-start, 1)
	}
	for part := range strings.SplitSeq(text.WrapSoft(cell, room), "\n") {
		t.Line(line + part)
		line = strings.Repeat(" ", start)
	}
}

// Line prints a line without cells, cut at the terminal's edge.
func (t *Table) Line(line string) {
	fmt.Fprintln(t.W, text.Snip(strings.TrimRight(line, " "), t.Width, "…"))
}
