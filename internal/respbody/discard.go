package respbody

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// drainLimit is how many bytes of a body are read so that its connection can be
// used again. To read more costs more than a new connection.
const drainLimit = 64 << 10

// A Discarded is a response body that is being discarded.
type Discarded struct {
	body  io.ReadCloser
	close func() error
	end   func()        // ends the attempt's context; may be nil
	done  chan struct{} // closed when the body is closed
	hurry chan struct{} // closed when there is no time left to read the rest
}

// Discard closes the body of a response that nobody reads. If reuse is set, it
// first reads up to 64 KiB of the body, so that the connection can be used
// again. cancel, if not nil, ends the attempt's context.
//
// Discard returns nil if the body is closed. Otherwise it has to wait for the
// rest of the body, and continues in the background. Finish limits that.
func Discard(resp *http.Response, reuse bool, cancel func()) *Discarded {
	ahead := Of(resp.Body)
	var busy bool // a Read is in progress that a Close might race with
	if ahead != nil {
		ahead.Stop()
		busy = !ahead.Ended() && !closesAnyTime(ahead.src)
		reuse = reuse && ahead.Ended() && ahead.end == nil
	}
	rest := reuse && resp.Body != http.NoBody
	if !rest && !busy {
		resp.Body.Close()
		return nil
	}
	d := &Discarded{
		body:  resp.Body,
		close: sync.OnceValue(resp.Body.Close),
		end:   cancel,
		done:  make(chan struct{}),
		hurry: make(chan struct{}),
	}
	if busy && cancel != nil {
		cancel()
	}
	go func() {
		defer close(d.done)
		defer func() { _ = recover() }() // a panic here would end the process
		if rest {
			d.drain()
		} else if busy {
			<-ahead.idle
		}
		_ = d.close()
	}()
	return d
}

func (d *Discarded) drain() {
	src := d.body
	if ahead := Of(src); ahead != nil {
		src = ahead.src
	}
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
	if d == nil {
		return
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-d.done:
		return
	case <-timer.C:
	case <-ctx.Done():
	}
	close(d.hurry)
	if inner := Of(d.body); inner == nil && closesAnyTime(d.body) || inner != nil && closesAnyTime(inner.src) {
		go func() { _ = d.close() }()
	} else if d.end != nil {
		d.end()
	}
}
