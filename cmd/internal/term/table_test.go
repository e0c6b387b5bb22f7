package term_test

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jedib0t/go-pretty/v6/text"

	"example.com/awsretry/cmd/internal/clitest"
	"example.com/awsretry/cmd/internal/term"
)

// A table in narrower and narrower terminals. Colors take no space.
func TestTable(t *testing.T) {
	plain := func(s ...any) string { return fmt.Sprint(s...) }
	red := func(s ...any) string { return "\x1b[31m" + fmt.Sprint(s...) + "\x1b[0m" }
	print := func(color term.Color) string {
		var b strings.Builder
		for _, width := range []int{math.MaxInt, 52, 33, 20, 9} {
			fmt.Fprintln(&b, "width", min(width, 999))
			table := term.Table{W: &b, Width: width, Columns: []term.Column{
				{Title: "#", Width: 2, Right: true},
				{Title: "NAME", Width: 6},
				{Title: "SPARE", Width: 5, Right: true, Spare: 1},
				{Title: "SPARER", Width: 6, Spare: 2},
				{Title: "DETAIL"},
			}}
			table.Header(color)
			table.Row(color("1"), color("one"), color("a"), color("b"), "")
			table.Row(color("2"), color("two"), color("c"), color("d"), color("short"))
			table.Row(color("3"), color("three"), color("e"), color("f"), color("a detail of some thirty letters"))
			table.Row(color("4"), color("四"), color("g"), color("h"), color("fünf 六"))
			table.Row(color("5"))
		}
		return b.String()
	}
	clitest.Golden(t, "table.txt", print(plain))
	shown := regexp.MustCompile(` +\n`).ReplaceAllString(text.StripEscape(print(red)), "\n")
	if diff := cmp.Diff(print(plain), shown); diff != "" {
		t.Errorf("plain to red:\n%s", diff)
	}
}

func TestFit(t *testing.T) {
	table := term.Table{Columns: []term.Column{{Title: "LONG TITLE"}, {Title: "N"}, {Title: "NONE"}}}
	table.Fit(slices.Values([][]string{{"a", "bb"}, {"", "\x1b[31m四四\x1b[0m"}}))
	for i, want := range []int{10, 4, 4} {
		if got := table.Columns[i].Width; got != want {
			t.Errorf("column %d has the width %d, want %d", i, got, want)
		}
	}
}
