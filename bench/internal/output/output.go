// Package output writes the tables of this module's programs.
package output

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// A Column of a table has a figure of what was measured.
type Column[R any] struct {
	Name string
	Of   func(R) float64
	Show func(float64) string
}

// Figures returns the figures of one measurement, in the order of the columns.
func Figures[R any](columns []Column[R], of R) []float64 {
	figures := make([]float64, len(columns))
	for i, c := range columns {
		figures[i] = c.Of(of)
	}
	return figures
}

// A Row has the figures of one or more measurements.
type Row struct {
	Names   []any // of what was measured
	Figures [][]float64
}

// Table writes a Markdown table and a blank line. Its first columns have the
// names of the rows, and the others what average returns for the figures of
// their measurements.
func Table[R any](w io.Writer, names []any, columns []Column[R], rows []Row, average func([]float64) float64) {
	t := table.NewWriter()
	t.Style().Markdown.PadContent = true
	header := slices.Clone(names)
	var right []table.ColumnConfig
	for _, c := range columns {
		header = append(header, c.Name)
		right = append(right, table.ColumnConfig{
			Number: len(header), Align: text.AlignRight, AlignHeader: text.AlignRight,
		})
	}
	t.SetColumnConfigs(right)
	t.AppendHeader(header)
	for _, row := range rows {
		cells := slices.Clone(row.Names)
		for i, c := range columns {
			var values []float64
			for _, figures := range row.Figures {
				values = append(values, figures[i])
			}
			cells = append(cells, c.Show(average(values)))
		}
		t.AppendRow(cells)
	}
	fmt.Fprintf(w, "%s\n\n", t.RenderMarkdown())
}

// Number returns a function that formats a number, or shows that there is none.
func Number(format string) func(float64) string {
	return func(n float64) string {
		if math.IsNaN(n) {
			return "–"
		}
		return fmt.Sprintf(format, n)
	}
}

// Percent formats a share.
func Percent(share float64) string { return Number("%.1f %%")(100 * share) }

// Unless returns a function that shows a negative number as the text, and
// formats others.
func Unless(text, format string) func(float64) string {
	return func(n float64) string {
		if n < 0 {
			return text
		}
		return fmt.Sprintf(format, n)
	}
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

// Mean returns the mean of the values.
func Mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// System returns what a page says of the machine.
func System() string {
	return fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Head writes how a page begins: with its title, the command that writes it, and
// the versions of the libraries.
func Head(w io.Writer, title, command string, libraries ...string) {
	fmt.Fprintf(w, "# %s\n\nWritten by `cd bench && %s`.\n%s; %s\n\n", title, command, System(), versions(libraries))
}

var major = regexp.MustCompile(`/v\d+$`)

// versions returns the versions of the libraries whose modules have these names,
// or "" in a binary that was built without modules, as tests are.
func versions(names []string) string {
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

// Page writes a file in docs/results, whose path is from the folder of the
// module. "" means standard output.
func Page(file string, write func(io.Writer)) error {
	if file == "" {
		write(os.Stdout)
		return nil
	}
	var page bytes.Buffer
	write(&page)
	return os.WriteFile(filepath.Join("../docs/results", file), page.Bytes(), 0o644)
}

// Exit ends a program with an error.
func Exit(status int, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
	os.Exit(status)
}
