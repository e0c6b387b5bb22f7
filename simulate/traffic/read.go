// Package traffic makes a scenario from a program's log. It reads the JSON lines of
// package retrylog once, in memory that does not grow with the log, and fits the
// clients, the service and the present setting to them.
//
// [Read] reads a log, [Log.Fit] fits a scenario to it, and [Fitted.Scenario] is for
// [simulate.Run]. [Fitted.Unseen] lists what the log cannot show.
package traffic

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// longestLine is the longest line that is read. Those of LogTo are far shorter.
const longestLine = 64 << 10

// Lines counts the lines of a log by kind.
type Lines struct {
	Used       int64 // of LogTo
	Others     int64 // of other programs, or of other parts of this one
	Unreadable int64 // that LogTo could have written, but cut or changed
	TooLong    int64 // more than 64 KiB
	Astray     int64 // whose time is more than a day away from the others
	OtherHosts int64 // to a host that Options.Host excludes
	text       int64 // of slog's text handler
	Cut        bool  // the compressed log ends too early
}

// unused counts the lines that were skipped.
func (n Lines) unused() int64 {
	return n.Others + n.Unreadable + n.TooLong + n.Astray + n.OtherHosts + n.text
}

// Options configure [Read]. The zero value is ready to use.
type Options struct {
	Host string // only requests to this host, with its port; "": all

	// Known has what the log does not show, or shows unclearly.
	Known Known

	// Progress is called from time to time with the number of bytes of r that have
	// been read. It may be nil.
	Progress func(int64)
}

// Known is what the caller knows about a program. Zero fields are fitted.
type Known struct {
	Callers int               // that each wait for a call before they make the next
	Timeout time.Duration     // of a call, with its retries and delays
	Present *scenario.Setting // that wrote the log
}

// byteOrderMark is what some editors write at the beginning of a file.
const byteOrderMark = "\xef\xbb\xbf"

// Read reads the lines of retrylog, or of LogTo, from r, which may be
// compressed by gzip. It skips and counts every other line.
func Read(ctx context.Context, r io.Reader, o Options) (*Log, error) {
	l := newLog(o.Host)
	l.known = o.Known
	if err := l.readAll(ctx, r, o.Progress); err != nil {
		return nil, err
	}
	if l.Lines.Used == 0 {
		return nil, l.empty()
	}
	return l, nil
}

// Refine reads a long log again from its beginning in r, so that the part that Fit
// chooses for the length is counted as finely as in a short log.
func (l *Log) Refine(ctx context.Context, r io.Reader, length time.Duration, progress func(int64)) error {
	part := l.window(cmp.Or(length, DefaultWindow))
	fine := newLog(l.host)
	if fine.counts.width == l.counts.width && fine.spans.width == l.spans.width {
		return nil
	}
	fine.part = part
	if err := fine.readAll(ctx, r, progress); err != nil {
		return err
	}
	if fine.Lines.Used > 0 { // otherwise it is another log now
		l.part, l.counts, l.spans = part, fine.counts, fine.spans
	}
	return nil
}

// readAll reads the lines of r.
func (l *Log) readAll(ctx context.Context, r io.Reader, progress func(int64)) error {
	in := bufio.NewReaderSize(&follower{ctx: ctx, r: r, progress: progress}, longestLine)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzip, err := gzip.NewReader(in)
		if err != nil {
			return fmt.Errorf("traffic: %w", err)
		}
		in = bufio.NewReaderSize(unzip, longestLine)
	}
	if mark, _ := in.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = in.Discard(len(byteOrderMark)) // cannot fail after Peek
	}
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			l.Lines.TooLong++
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice('\n')
			}
			line = nil
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			l.line(line)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader):
			l.Lines.Cut = true
			return nil
		case err != nil:
			return fmt.Errorf("traffic: %w", err)
		}
	}
}

// line counts a line, and adds its attempt to the log.
func (l *Log) line(text []byte) {
	a, kind := parse(text)
	switch kind {
	case ofText:
		l.Lines.text++
	case ofOthers:
		l.Lines.Others++
	case unreadable:
		l.Lines.Unreadable++
	default:
		l.add(a)
	}
}

// empty returns the error of a log that has nothing to fit.
func (l *Log) empty() error {
	n := l.Lines
	switch {
	case n.unused() == 0:
		return errors.New("traffic: the log is empty")
	case n.text > 0:
		return fmt.Errorf("traffic: %d lines are of slog's text handler; use slog.NewJSONHandler", n.text)
	case n.OtherHosts > 0:
		return fmt.Errorf("traffic: no attempt goes to the host %q; the log has %s", l.host, l.hostList())
	case n.Unreadable > 0:
		return fmt.Errorf("traffic: %d lines look like those of retrylog, but none can be read; "+
			"if each is in another object, such as Docker's or a group of slog, use jq -r .log or jq -c .GROUP, "+
			"and if each has a prefix, such as CRI's, cut -d' ' -f4-", n.Unreadable)
	}
	return fmt.Errorf("traffic: none of %d lines is of retrylog with slog's JSON handler",
		n.Others+n.TooLong)
}

// A follower reports how much was read, and stops reading when ctx ends.
type follower struct {
	ctx      context.Context
	r        io.Reader
	read     int64
	progress func(int64)
}

func (f *follower) Read(p []byte) (int, error) {
	if f.ctx.Err() != nil {
		return 0, context.Cause(f.ctx)
	}
	n, err := f.r.Read(p)
	f.read += int64(n)
	if f.progress != nil {
		f.progress(f.read)
	}
	return n, err
}
