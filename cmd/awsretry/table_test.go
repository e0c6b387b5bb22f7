package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jedib0t/go-pretty/v6/text"
)

func TestTable(t *testing.T) {
	columns := []column{
		{title: "#", width: 2, right: true}, {title: "NAME", width: 6}, {title: "SPARE", width: 5, right: true, spare: 1},
		{title: "SPARER", width: 6, spare: 2}, {title: "DETAIL"},
	}
	rows := [][]string{
		{"1", "one", "a", "b", ""},
		{"2", "two", "c", "d", "short"},
		{"3", "three", "e", "f", "a detail of some thirty letters"},
		{"4", "四", "g", "h", "fünf 六"},
		{"5"},
	}
	for _, test := range []struct {
		width int
		want  string
	}{
		{0, `
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
		var b strings.Builder
		table := table{w: &b, width: test.width, columns: columns}
		table.header(paletteOf(false))
		for _, row := range rows {
			table.row(row, nil)
		}
		if diff := cmp.Diff(test.want, "\n"+b.String()); diff != "" {
			t.Errorf("width %d, want to got:\n%s", test.width, diff)
		}
	}
}

// Tables fit the terminal. If the output is not a terminal, nothing is cut.
func TestTablesFit(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(policy, []byte(`{"healthyRetryPolicy": {"numRetries": 10, "minDelayTarget": 5, "maxDelayTarget": 260}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	env := withConfig(t, map[string]string{"AWS_PROFILE": "busy"})
	s := serve(t, unavailable)
	for _, test := range []struct {
		args  []string
		table func(line string) bool // is a line of a table
	}{
		{[]string{"config"}, func(string) bool { return true }},
		{get("--max-attempts", "4", s.URL), func(line string) bool {
			return strings.HasPrefix(line, "  ") && !strings.Contains(line, "used up (see")
		}},
		{[]string{"schedule", "--compare", policy}, func(line string) bool {
			return !strings.HasPrefix(line, "10 retries") && !strings.Contains(line, "policy.json") && !strings.HasPrefix(line, "Content")
		}},
		{quick(), func(line string) bool { return !strings.Contains(line, ":") && !strings.Contains(line, "seed") }},
	} {
		for _, width := range []int{30, 40, 60, 80, 120} {
			p := shell{env: env, terminals: []string{"stdout", "stderr"}, width: width}
			got := p.run(t, test.args...)
			tables := 0
			for line := range strings.Lines(got.stdout + got.stderr) {
				line = strings.TrimSuffix(line, "\n")
				if !test.table(line) {
					continue
				}
				tables++
				if n := text.StringWidthWithoutEscSequences(line); n > width {
					t.Errorf("%q: a line of %d characters on a terminal of %d: %q", test.args, n, width, line)
				}
			}
			if tables < 3 {
				t.Errorf("%q: %d lines of tables in\n%s%s", test.args, tables, got.stdout, got.stderr)
			}
		}
		wide, narrow := shell{env: env}.run(t, test.args...), shell{env: env, width: 30}.run(t, test.args...)
		if strings.Contains(narrow.stdout, "…") || strings.Count(narrow.stdout, "\n") != strings.Count(wide.stdout, "\n") {
			t.Errorf("%q is cut although it is no terminal:\n%s", test.args, narrow.stdout)
		}
	}
}
