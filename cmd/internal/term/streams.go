// Package term has what a command uses for its output: the streams and the terminal
// of the process, colors, tables, and text that is safe for a terminal.
package term

import (
	"fmt"
	"io"
	"math"
	"os"

	"golang.org/x/term"
)

// Streams are the parts of the process that a command uses.
type Streams struct {
	In         io.Reader
	Out, Err   io.Writer
	Getenv     func(string) string
	IsTerminal func(io.Writer) bool
	Width      func(terminal io.Writer) (columns int, known bool)
}

// System returns the streams of this process.
func System() Streams {
	return Streams{
		In:     os.Stdin,
		Out:    os.Stdout,
		Err:    os.Stderr,
		Getenv: os.Getenv,
		IsTerminal: func(w io.Writer) bool {
			f, ok := w.(*os.File)
			return ok && term.IsTerminal(int(f.Fd()))
		},
		Width: func(w io.Writer) (int, bool) {
			f, ok := w.(*os.File)
			if !ok {
				return 0, false
			}
			columns, _, err := term.GetSize(int(f.Fd()))
			return columns, err == nil && columns > 0
		},
	}
}

// TableWidth returns the maximum width of a table on w. It is math.MaxInt unless w
// is a terminal of known width.
func (s Streams) TableWidth(w io.Writer) int {
	if s.IsTerminal(w) {
		if columns, known := s.Width(w); known {
			return columns
		}
	}
	return math.MaxInt
}

// Warn writes a warning of a command, such as awsretry get, to standard error.
func (s Streams) Warn(command, warning string, asJSON bool) {
	if asJSON {
		NewEncoder(s.Err).Encode(struct {
			Warning string `json:"warning"`
		}{warning})
		return
	}
	fmt.Fprintf(s.Err, "%s: warning: %s\n", command, Printable(warning))
}

// Fault prints on standard error what failed.
func (s Streams) Fault(text string) {
	fmt.Fprintf(s.Err, "%s %s\n", NewPalette(s, s.Err).Bad("✗"), text)
}
