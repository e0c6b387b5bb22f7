package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// A table writes rows one at a time. No line is longer than the terminal is
// wide.
type table struct {
	w       io.Writer
	indent  string
	width   int // of the terminal in characters; 0: no limit
	columns []column
}

// A column of a table. A width of 0, for the last column only, means as wide as
// the text.
type column struct {
	title string
	width int
	right bool // its cells end at its right edge
	spare int  // a narrow table omits the column with the highest number first; 0: never omitted
}

const (
	columnGap = 2

	leastText   = 24 // of a column in which a longer text is wrapped
	belowIndent = 5  // of a text that gets lines of its own
)

// header writes the titles.
func (t *table) header(palette palette) {
	titles := make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = c.title
	}
	t.row(titles, func(int) func(...any) string { return palette.faint })
}

// row writes a line with a cell for each column; the last cells may be missing.
// paint may be nil, and may return nil for a column that has no color.
func (t *table) row(cells []string, paint func(column int) func(...any) string) {
	for len(cells) > 1 && cells[len(cells)-1] == "" {
		cells = cells[:len(cells)-1]
	}
	painted := func(i int, cell string) string {
		if paint != nil {
			if color := paint(i); color != nil {
				return color(cell)
			}
		}
		return cell
	}
	shown, start := t.shown()
	shown = slices.DeleteFunc(shown, func(i int) bool { return i >= len(cells) })
	tooLong := ""
	last := shown[len(shown)-1]
	if t.columns[last].width == 0 && t.width > 0 && start+text.StringWidth(cells[last]) > t.width {
		tooLong, shown = painted(last, cells[last]), shown[:len(shown)-1]
	}
	var line strings.Builder
	line.WriteString(t.indent)
	for n, i := range shown {
		cell := cells[i]
		switch {
		case t.columns[i].right:
			cell = right(cell, t.columns[i].width)
		case n < len(shown)-1:
			cell = left(cell, t.columns[i].width)
		}
		if n > 0 {
			line.WriteString(strings.Repeat(" ", columnGap))
		}
		line.WriteString(painted(i, cell))
	}
	if tooLong != "" {
		t.wrapped(line.String(), tooLong, start)
		return
	}
	t.line(line.String())
}

// shown returns the indices of the columns that fit, and the offset at which a
// last column without a width begins.
func (t *table) shown() (columns []int, start int) {
	for i := range t.columns {
		columns = append(columns, i)
	}
	for {
		start = text.StringWidth(t.indent)
		spare := -1 // in columns
		for n, i := range columns {
			c := t.columns[i]
			start += c.width
			if n > 0 && c.width > 0 {
				start += columnGap
			}
			if c.spare > 0 && (spare < 0 || c.spare > t.columns[columns[spare]].spare) {
				spare = n
			}
		}
		if t.width == 0 || start <= t.width || spare < 0 {
			break
		}
		columns = slices.Delete(columns, spare, spare+1)
	}
	if t.columns[columns[len(columns)-1]].width == 0 && len(columns) > 1 {
		start += columnGap
	}
	return columns, start
}

// wrapped writes a line and a last cell that does not fit behind it. The cell is
// wrapped in its column, or, if that is narrow, on lines of its own below.
func (t *table) wrapped(line, cell string, start int) {
	if t.width-start >= leastText {
		first, rest, more := strings.Cut(text.WrapSoft(cell, t.width-start), "\n")
		t.line(text.Pad(line, start, ' ') + first)
		if !more {
			return
		}
		cell = rest
	} else {
		start = text.StringWidth(t.indent) + belowIndent
		cell = text.WrapSoft(cell, max(t.width-start, 1))
		t.line(line)
	}
	for part := range strings.SplitSeq(cell, "\n") {
		t.line(strings.Repeat(" ", start) + part)
	}
}

// line writes a line, which ends at the terminal's edge.
func (t *table) line(s string) {
	if t.width > 0 {
		s = text.Snip(s, t.width, "…")
	}
	fmt.Fprintln(t.w, strings.TrimRight(s, " "))
}
