package respbody

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"example.com/awsretry/internal/wait"
)

// drainLimit is how many bytes of a body are read so that its connection can be
// reused. Reading more costs more than a new connection.
const drainLimit = 64 << 10

// closeWait is how long Close waits for the Close of a body. A body of
// http.ReadResponse reads the rest in Close, and a body of net/http's HTTP/2 waits
// until the connection can be written to.
const closeWait = 100 * time.Millisecond

// A Discarded is a response body that is being discarded.
type Discarded struct {
	body  io.ReadCloser
	close func() error
	end   func()        // ends the attempt's context; nil if that is the caller's
	done  chan struct{} // closed when the body is closed
	hurry chan struct{} // closed when the rest must no longer be read
	busy  bool          // a Read is in progress that Close does not end
}

// Discard closes the body of a response that nobody reads. If reuse is true, it
// first reads up to 64 KiB of the body, so that the connection can be reused.
// Otherwise it first ends the attempt's context, unless end is nil.
//
// Discard returns nil if the body is closed. Otherwise it continues in the
// background, and waits there for a Read in progress, for the rest of the body
// and for its Close. Finish limits how long the rest is read.
func Discard(resp *http.Response, reuse bool, end func()) *Discarded {
	ahead := Of(resp.Body)
	var busy bool   // a Read is in progress
	var read []byte // ahead
	if ahead != nil {
		read = ahead.Stop()
		busy, end = !ahead.Ended(), ahead.cancel
	}
	if resp.Body == http.NoBody || ahead != nil && !busy && ahead.end == io.EOF {
		resp.Body.Close()
		return nil
	}
	rest := reuse && !busy && (ahead == nil || ahead.end == nil)
	if resp.Uncompressed && len(read) == 0 {
		rest = false // net/http's Close waits for a Read of the beginning of a gzip body
	}
	d := &Discarded{
		body:  resp.Body,
		close: sync.OnceValue(resp.Body.Close),
		end:   end,
		done:  make(chan struct{}),
		hurry: make(chan struct{}),
	}
	d.busy = busy && !d.closeEndsRead()
	if !rest && end != nil {
		end()
	}
	go func() {
		defer close(d.done)
		defer func() { _ = recover() }() // a panic here would end the process
		if rest {
			d.drain()
		} else if d.busy {
			<-ahead.idle
		}
		_ = d.close()
	}()
	return d
}

// Close discards the body of a response that the caller never sees. It waits
// only a short time for the Close of the body.
func Close(resp *http.Response, end func()) {
	if d := Discard(resp, false, end); d != nil && !d.busy {
		wait.For(context.Background(), closeWait, d.done)
	}
}

// source returns the reader of the part that was not read ahead.
func (d *Discarded) source() io.ReadCloser {
	if ahead := Of(d.body); ahead != nil {
		return ahead.src
	}
	return d.body
}

// closeEndsRead reports whether the body's Close ends a Read in progress. Otherwise
// the attempt's own context does, or the caller's.
func (d *Discarded) closeEndsRead() bool { return d.end == nil && closeEndsRead(d.source()) }

func (d *Discarded) drain() {
	src := d.source()
	buf := make([]byte, 8<<10)
	for n := 0; n < drainLimit; {
		read, err := src.Read(buf)
		if err != nil {
			return
		}
		n += max(read, 1) // count an empty Read too, so that the loop ends
		select {
		case <-d.hurry:
			return
		default:
		}
	}
}

// Finish waits until the body is closed, the timeout has passed or ctx has
// ended. After that no more of the body is read. Finish of a nil Discarded does
// nothing.
func (d *Discarded) Finish(ctx context.Context, timeout time.Duration) {
	if d == nil || wait.For(ctx, timeout, d.done) {
		return
	}
	close(d.hurry)
	if d.end != nil {
		d.end()
	}
	if d.closeEndsRead() {
		go func() { _ = d.close() }()
	}
}
