// Package printer prints what a command does as it does it: the rows of a table
// or JSON objects on standard output and, on a terminal, a progress bar below.
package printer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/schollz/progressbar/v3"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/files"
	"example.com/awsretry/cmd/internal/term"
)

// ErrOutputClosed stops a run whose report has no reader any more.
var ErrOutputClosed = errors.New("standard output was closed")

// A Printer prints for people, or JSON. Its user locks it if several goroutines
// print.
type Printer struct {
	sync.Mutex
	Streams term.Streams
	Palette term.Palette
	Out     *term.ErrWriter
	JSON    *json.Encoder            // nil: for people
	Table   term.Table               // on Out
	Bar     *progressbar.ProgressBar // nil: none
}

// New returns a Printer for rows with these columns. They have fixed widths: a
// row is printed before the next is known.
func New(s term.Streams, asJSON bool, columns []term.Column) *Printer {
	p := &Printer{Streams: s, Palette: term.NewPalette(s, s.Out), Out: &term.ErrWriter{Writer: s.Out}}
	p.Table = term.Table{W: p.Out, Width: s.TableWidth(s.Out), Columns: columns}
	if asJSON {
		p.JSON = term.NewEncoder(p.Out)
	}
	return p
}

// NewListing returns a Printer whose writes end with ctx.
func NewListing(ctx context.Context, s term.Streams, asJSON bool, columns []term.Column) *Printer {
	p := New(s, asJSON, columns)
	p.Out.Writer = files.NewWriter(ctx, s.Out)
	return p
}

// AddBar adds a progress bar of total steps if there is a terminal for it.
func (p *Printer) AddBar(total int) {
	if p.JSON == nil && p.Streams.IsTerminal(p.Streams.Err) && p.Streams.Getenv("TERM") != "dumb" {
		p.Bar = term.NewBar(p.Streams.Err, int64(total))
	}
}

// Begin prints what is going to be done, and how.
func (p *Printer) Begin(title, how string) {
	fmt.Fprintf(p.Out, "%s\n%s\n\n", p.Palette.Bold(title), p.Palette.Faint(how))
	p.Header()
	if p.Bar != nil {
		p.Bar.RenderBlank()
	}
}

// Header prints the titles of the columns.
func (p *Printer) Header() { p.Table.Header(p.Palette.Faint) }

// Above prints a line on standard error in place of the bar, which continues
// below.
func (p *Printer) Above(line string) {
	p.ClearBar()
	fmt.Fprintln(p.Streams.Err, line)
}

// Fault prints on standard error what failed.
func (p *Printer) Fault(text string) {
	p.Above(term.NewPalette(p.Streams, p.Streams.Err).Bad("✗") + " " + text)
}

// Stopping prints why the run does not stop at once.
func (p *Printer) Stopping(text string) {
	p.Lock()
	defer p.Unlock()
	if p.JSON != nil {
		return
	}
	p.Above(text)
	if p.Bar != nil {
		p.Bar.Describe("stopping")
	}
}

// ClearBar makes room for a line.
func (p *Printer) ClearBar() {
	if p.Bar != nil {
		p.Bar.Clear()
	}
}

// RemoveBar removes the bar for good.
func (p *Printer) RemoveBar() {
	p.ClearBar()
	p.Bar = nil
}

// CheckReader stops the run if the output has no reader any more.
func (p *Printer) CheckReader(stop context.CancelCauseFunc) {
	if cli.IsBrokenPipe(p.Out.Err) {
		stop(ErrOutputClosed)
	}
}

// Conclude prints the last line, with a mark for success or failure.
func (p *Printer) Conclude(success bool, verdict string) {
	mark := p.Palette.Good("✓")
	if !success {
		mark = p.Palette.Bad("✗")
	}
	fmt.Fprintf(p.Out, "%s %s\n", mark, p.Palette.Bold(verdict))
}

// Err returns the error of writing, with the verdict if the output was closed.
func (p *Printer) Err(verdict string) error {
	if cli.IsBrokenPipe(p.Out.Err) {
		return cli.Failed(fmt.Errorf("%w: %s", ErrOutputClosed, verdict))
	}
	return cli.Failed(p.Out.Err)
}

// Grouped returns n with commas.
func Grouped(n int) string { return humanize.Comma(int64(n)) }

// Plural returns n with a noun; an empty many adds an s.
func Plural(n int, one, many string) string { return english.Plural(n, one, many) }

// Status returns a status code for a table.
func Status(code int) string {
	if code == 0 {
		return "-"
	}
	return strconv.Itoa(code)
}
