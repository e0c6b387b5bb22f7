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
			for name, color := range map[string]Color{
				"plain": fmt.Sprint,
				"red":   func(s ...any) string { return "\x1b[31m" + fmt.Sprint(s...) + "\x1b[0m" },
			} {
				var b strings.Builder
				table := Table{W: &b, Width: c.width, Columns: columns}
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
				shown := regexp.MustCompile(` +\n`).ReplaceAllString(text.StripEscape(b.String()), "\n")
				if diff := cmp.Diff(c.want, "\n"+shown); diff != "" || strings.Contains(b.String(), "\x1b") != (name == "red") {
					t.Errorf("%s, want to got:\n%s", name, diff)
				}
			}
		})
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
