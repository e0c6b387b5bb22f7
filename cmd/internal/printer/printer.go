// Package printer prints the progress of a command: the rows of a table or JSON
// objects and, on a terminal, a progress bar below them.
package printer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/schollz/progressbar/v3"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/files"
	"example.com/awsretry/cmd/internal/term"
)

// ErrOutputClosed stops a run whose report no longer has a reader.
var ErrOutputClosed = errors.New("standard output was closed")

// A Printer prints for people, or JSON.
type Printer struct {
	term.Streams
	Palette term.Palette
	Out     *term.ErrWriter
	JSON    *json.Encoder            // nil: for people
	Table   term.Table               // on Out
	Bar     *progressbar.ProgressBar // nil: none
	Stop    context.CancelCauseFunc  // ends the run when Out no longer has a reader; nil: nothing does

	mu sync.Mutex // held by Do
}

// New returns a Printer on w for rows with these columns. They have fixed
// widths: a row is printed before the next is known.
func New(s term.Streams, w io.Writer, asJSON bool, columns []term.Column) *Printer {
	p := &Printer{Streams: s, Palette: term.NewPalette(s, w), Out: &term.ErrWriter{Writer: w}}
	p.Table = term.Table{W: p.Out, Width: s.TableWidth(w), Columns: columns}
	if asJSON {
		p.JSON = term.NewEncoder(p.Out)
	}
	return p
}

// NewListing returns a Printer on standard output whose writes end with ctx.
func NewListing(ctx context.Context, s term.Streams, asJSON bool, columns []term.Column) *Printer {
	p := New(s, s.Out, asJSON, columns)
	p.Out.Writer = files.NewWriter(ctx, s.Out)
	return p
}

// AddBar adds a progress bar of total steps if there is a terminal for it.
func (p *Printer) AddBar(total int) {
	if p.JSON == nil && p.IsTerminal(p.Err) && p.Getenv("TERM") != "dumb" {
		p.Bar = NewBar(p.Err, int64(total))
	}
}

// Do calls f, whose output replaces the bar. It is for a Printer that several
// goroutines use.
func (p *Printer) Do(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Bar != nil {
		p.Bar.Clear()
	}
	f()
	if p.Bar != nil {
		p.Bar.RenderBlank()
	}
	if p.Stop != nil && cli.IsBrokenPipe(p.Out.Err) {
		p.Stop(ErrOutputClosed)
	}
}

// Object prints v as JSON, unless p prints for people. It reports whether it
// printed v.
func (p *Printer) Object(v any) bool {
	if p.JSON != nil {
		p.JSON.Encode(v)
	}
	return p.JSON != nil
}

// Say prints a line.
func (p *Printer) Say(format string, args ...any) {
	fmt.Fprintln(p.Out, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

// Begin prints what will be done, and how.
func (p *Printer) Begin(title, how string) {
	fmt.Fprintf(p.Out, "%s\n%s\n\n", p.Palette.Bold(title), p.Palette.Faint(how))
}

// Header prints the titles of the columns.
func (p *Printer) Header() { p.Table.Header(p.Palette.Faint) }

// Stopping prints why the run does not stop at once.
func (p *Printer) Stopping(text string) {
	if p.JSON != nil {
		return
	}
	p.Do(func() {
		fmt.Fprintln(p.Err, text)
		if p.Bar != nil {
			p.Bar.Describe("stopping")
		}
	})
}

// Conclude prints a verdict with a mark for success or failure, and why.
func (p *Printer) Conclude(success bool, verdict, why string) {
	mark := p.Palette.Good("✓")
	if !success {
		mark = p.Palette.Bad("✗")
	}
	fmt.Fprintf(p.Out, "%s %s\n", mark, p.Palette.Bold(verdict))
	for line := range strings.Lines(why) {
		fmt.Fprintf(p.Out, "  %s\n", strings.TrimSuffix(line, "\n"))
	}
}

// End removes the bar and ends a report: with sum as JSON, or by conclude. It
// returns the error of writing, with the verdict if the output was closed, or the
// error with the exit status.
func (p *Printer) End(sum any, conclude func(), verdict string, status int) (err error) {
	p.Do(func() {
		if p.Bar != nil {
			p.Bar.Clear()
			p.Bar = nil
		}
		if !p.Object(sum) {
			conclude()
		}
		switch {
		case cli.IsBrokenPipe(p.Out.Err):
			err = cli.Failed(fmt.Errorf("%w: %s", ErrOutputClosed, verdict))
		case p.Out.Err != nil:
			err = cli.Failed(p.Out.Err)
		case status != 0:
			err = cli.Reported(status)
		}
	})
	return err
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
