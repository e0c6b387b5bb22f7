package term

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jedib0t/go-pretty/v6/text"
)

var columns = []Column{
	{Title: "#", Width: 2, Right: true},
	{Title: "NAME", Width: 6},
	{Title: "SPARE", Width: 5, Right: true, Spare: 1},
	{Title: "SPARER", Width: 6, Spare: 2},
	{Title: "DETAIL"},
}

var rows = [][]string{
	{"1", "one", "a", "b", ""},
	{"2", "two", "c", "d", "short"},
	{"3", "three", "e", "f", "a detail of some thirty letters"},
	{"4", "四", "g", "h", "fünf 六"},
	{"5"},
}

func TestTable(t *testing.T) {
	for _, c := range []struct {
		width int
		want  string
	}{
		{math.MaxInt, `
 #  NAME    SPARE  SPARER  DETAIL
 1  one         a  b
 2  two         c  d       short
 3  three       e  f       a detail of some thirty letters
 4  四          g  h       fünf 六
 5
`},
		{52, `
 #  NAME    SPARE  SPARER  DETAIL
 1  one         a  b
 2  two         c  d       short
 3  three       e  f       a detail of some thirty
                           letters
 4  四          g  h       fünf 六
 5
`},
		{33, `
 #  NAME    SPARE  SPARER  DETAIL
 1  one         a  b
 2  two         c  d       short
 3  three       e  f
     a detail of some thirty
     letters
 4  四          g  h
     fünf 六
 5
`},
		{20, `
 #  NAME    SPARE
     DETAIL
 1  one         a
 2  two         c
     short
 3  three       e
     a detail of
     some thirty
     letters
 4  四          g
     fünf 六
 5
`},
		{9, `
 #  NAME
     DETA
     IL
 1  one
 2  two
     shor
     t
 3  three
     a
     deta
     il
     of
     some
     thir
     ty
     lett
     ers
 4  四
     fünf
     六
 5
`},
	} {
		t.Run(fmt.Sprint("width ", c.width), func(t *testing.T) {
			var b strings.Builder
			table := Table{W: &b, Width: c.width, Columns: columns}
			table.Header(fmt.Sprint)
			for _, row := range rows {
				table.Row(row...)
			}
			if diff := cmp.Diff(c.want, "\n"+b.String()); diff != "" {
				t.Errorf("want to got:\n%s", diff)
			}
		})
	}
}

func TestColorsTakeNoRoom(t *testing.T) {
	red := func(s ...any) string { return "\x1b[31m" + fmt.Sprint(s...) + "\x1b[0m" }
	for _, width := range []int{9, 20, 33, 52, math.MaxInt} {
		var plain, colored strings.Builder
		for b, color := range map[*strings.Builder]func(...any) string{&plain: fmt.Sprint, &colored: red} {
			table := Table{W: b, Indent: "  ", Width: width, Columns: columns}
			table.Header(color)
			for _, row := range rows {
				var cells []string
				for _, cell := range row {
					if cell != "" {
						cell = color(cell)
					}
					cells = append(cells, cell)
				}
				table.Row(cells...)
			}
		}
		if !strings.Contains(colored.String(), "\x1b[31m") {
			t.Errorf("width %d: no colors in %q", width, colored.String())
		}
		stripped := regexp.MustCompile(` +\n`).ReplaceAllString(text.StripEscape(colored.String()), "\n")
		if diff := cmp.Diff(plain.String(), stripped); diff != "" {
			t.Errorf("width %d, plain to colored:\n%s", width, diff)
		}
	}
}

func TestFit(t *testing.T) {
	table := Table{Columns: []Column{{Title: "LONG TITLE"}, {Title: "N"}, {Title: "NONE"}}}
	table.Fit(slices.Values([][]string{{"a", "bb"}, {"", "\x1b[31m四四\x1b[0m"}}))
	for i, want := range []int{10, 4, 4} {
		if got := table.Columns[i].Width; got != want {
			t.Errorf("column %d has the width %d, want %d", i, got, want)
		}
	}
}
