// Package output has what the programs of this module print in the same way.
package output

import (
	"fmt"
	"io"
	"path"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Table writes a Markdown table and a blank line. All columns but the first
// ones, of which there are left, are aligned to the right.
func Table(w io.Writer, left int, header []any, rows [][]any) {
	t := table.NewWriter()
	t.Style().Markdown.PadContent = true
	var columns []table.ColumnConfig
	for number := left + 1; number <= len(header); number++ {
		columns = append(columns, table.ColumnConfig{
			Number: number, Align: text.AlignRight, AlignHeader: text.AlignRight,
		})
	}
	t.SetColumnConfigs(columns)
	t.AppendHeader(header)
	for _, row := range rows {
		t.AppendRow(row)
	}
	fmt.Fprintf(w, "%s\n\n", t.RenderMarkdown())
}

// Median sorts the values and returns the one in the middle, or the mean of the
// two there.
func Median(values []float64) float64 {
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return values[middle]
	}
	return (values[middle-1] + values[middle]) / 2
}

var major = regexp.MustCompile(`/v\d+$`)

// Versions returns the versions of the libraries whose modules have these names,
// or "" in a binary that was built without modules, as tests are.
func Versions(names ...string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var found []string
	for _, module := range info.Deps {
		if name := path.Base(major.ReplaceAllString(module.Path, "")); slices.Contains(names, name) {
			found = append(found, name+" "+module.Version)
		}
	}
	return strings.Join(found, ", ")
}
