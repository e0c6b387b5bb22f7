package respbody

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// drainLimit is how much is read of a body so that its connection can be used
// again, in bytes. A longer rest costs more than a connection.
const drainLimit = 64 << 10

// A Discarded is a response body that is being ended.
type Discarded struct {
	body  io.ReadCloser
	close func() error
	end   func()        // of the attempt's context; nil for none
	done  chan struct{} // closed when the body is closed
	hurry chan struct{} // closed when there is no more time to read the rest
}

// Discard ends the body of a response that nobody will read: it closes it, where
// reuse is set after reading a rest of up to 64 KiB, so that the connection can
// be used again. cancel, nil for none, ends the attempt's context.
//
// It returns nil where that is done. Where it takes time, because the rest is
// still to come, it goes on while the caller does something else, until Finish.
func Discard(resp *http.Response, reuse bool, cancel func()) *Discarded {
	ahead := Of(resp.Body)
	var busy bool // a Read is under way, beside which the body must not be closed
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
		defer func() { _ = recover() }() // the body's panic would end the process here
		if rest {
			d.drain()
		} else if busy {
			<-ahead.idle
		}
		d.close()
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
		n += max(read, 1) // a Read that brings nothing counts too, so that this ends
		select {
		case <-d.hurry:
			return
		default:
		}
	}
}

// Finish gives the body the time to be ended, and no longer than ctx lasts; then
// the rest of it is not read any more. A nil Discarded has ended.
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
		go d.close()
	} else if d.end != nil {
		d.end()
	}
}
