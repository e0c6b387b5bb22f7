package replay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
)

// A fickle source returns its text in pieces of random sizes, after random
// delays. It may fail, panic or hang at its end. Its GetBody rewinds it.
type fickle struct {
	text   []byte
	finale string // "": io.EOF; or "fails", "panics", "hangs"

	t       *testing.T
	reads   atomic.Int32 // in progress
	opens   atomic.Int32 // and not closed
	closes  atomic.Int32
	hanging chan struct{}

	mu   sync.Mutex // guards the fields below
	rand *rand.Rand
	pos  int
}

var errFickle = errors.New("fickle")

func (f *fickle) Read(p []byte) (int, error) {
	if f.reads.Add(1) > 1 {
		f.t.Error("two Reads at the same time")
	}
	defer f.reads.Add(-1)
	n, delay, ends := f.step(p)
	time.Sleep(delay)
	if f.opens.Load() != 1 {
		f.t.Error("closed during a Read, or before it")
	}
	if !ends {
		return n, nil
	}
	switch f.finale {
	case "fails":
		return n, errFickle
	case "panics":
		panic(errFickle)
	case "hangs":
		if n > 0 {
			return n, nil
		}
		<-f.hanging
		return 0, errFickle
	}
	return n, io.EOF
}

func (f *fickle) step(p []byte) (n int, delay time.Duration, ends bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n = copy(p[:f.rand.IntN(len(p)+1)], f.text[f.pos:])
	f.pos += n
	if f.rand.IntN(3) == 0 {
		delay = time.Duration(f.rand.IntN(3000)) * time.Millisecond
	}
	return n, delay, f.pos == len(f.text) && (n == 0 || f.rand.IntN(2) == 0 && f.finale != "panics")
}

func (f *fickle) Close() error {
	if f.reads.Load() > 0 {
		f.t.Error("closed during a Read")
	}
	f.opens.Add(-1)
	f.closes.Add(1)
	return nil
}

// GetBody is that of a request with f as its body.
func (f *fickle) GetBody() (io.ReadCloser, error) {
	if f.reads.Load() > 0 || f.opens.Load() != 0 {
		f.t.Error("GetBody during a Read, or before Close")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rand.IntN(8) == 0 {
		return nil, errFickle
	}
	f.pos = 0
	f.opens.Add(1)
	return f, nil
}

// send reads req's body as a Base may: a part of it or more, with a Close before
// the first Read, during one or after the last, and again through GetBody. It
// returns before the sending ends; sent is closed then. The end of stop closes
// every body.
func (f *fickle) send(req *http.Request, r *rand.Rand, stop <-chan struct{}) (sent <-chan struct{}) {
	limit, unread, again := r.IntN(2*len(f.text)+2), r.IntN(8) == 0, r.IntN(4) == 0
	closes, interrupts := r.IntN(4) == 0, r.IntN(4) == 0
	own := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
	closeAtStop := func(body io.Closer) {
		go func() {
			<-stop
			body.Close()
		}()
	}
	closeAtStop(req.Body)
	if interrupts {
		time.AfterFunc(time.Duration(limit)*50*time.Millisecond, func() { req.Body.Close() })
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }() // of the caller's reader
		if unread {
			req.Body.Close() // as net/http's HTTP/2 does
		}
		f.verify(req.Body, own, limit)
		if closes {
			req.Body.Close()
		}
		if again && req.GetBody != nil {
			if next, err := req.GetBody(); err == nil {
				closeAtStop(next)
				f.verify(next, own, limit)
			}
		}
	}()
	return done
}

// verify reads up to limit bytes, which must be the first ones of the text.
func (f *fickle) verify(body io.Reader, r *rand.Rand, limit int) (err error) {
	var got []byte
	for err == nil && len(got) < limit {
		p := make([]byte, 1+r.IntN(9))
		var n int
		n, err = body.Read(p)
		got = append(got, p[:n]...)
		if !bytes.HasPrefix(f.text, got) || err == io.EOF && (len(got) < len(f.text) || f.finale != "") {
			f.t.Errorf("read %q, %v of %q, which %s", got, err, f.text, f.finale)
		}
	}
	return err
}

// Whatever the attempts of a borrower do, every copy has the first bytes of the
// stream, no Read of it overlaps with another one, with Close or with GetBody,
// and it is closed as often as it was opened.
func TestLentStreamAtRandom(t *testing.T) {
	for _, getBody := range []bool{false, true} {
		for seed := range uint64(1000) {
			synctest.Test(t, func(t *testing.T) {
				lendAtRandom(t, seed, getBody)
				if t.Failed() {
					t.Fatalf("seed %d, GetBody %v", seed, getBody)
				}
			})
		}
	}
}

func lendAtRandom(t *testing.T, seed uint64, getBody bool) {
	r := rand.New(rand.NewPCG(seed, 1))
	f := &fickle{
		text:    []byte("0123456789abcdefghijklmnopqrstuvwxyz")[:r.IntN(37)],
		finale:  []string{"", "", "", "fails", "panics", "hangs"}[r.IntN(6)],
		t:       t,
		rand:    rand.New(rand.NewPCG(seed, 2)),
		hanging: make(chan struct{}),
	}
	f.opens.Store(1)
	ctx, cancel := context.WithCancel(t.Context())
	stop := make(chan struct{})
	req := httpfake.Request(t, ctx, "PUT", f)
	if getBody {
		req.GetBody = f.GetBody
	}
	var lender Body
	lender.Own(req)
	lender.Share(int64(r.IntN(50)), false)
	out := req.WithContext(ctx)
	lender.Lend(out)
	f.attempt(ctx, out, r, stop)
	if closed := f.closes.Load(); !getBody && closed > 0 && !lender.stream.lost {
		t.Errorf("the borrower closed the caller's reader %d times", closed)
	}

	// The lender reads all of the body, if it can. Or it leaves it to Base.
	if open := lender.Whole(); r.IntN(4) == 0 {
	} else if open != nil {
		if got, err := io.ReadAll(open()); err != nil || !bytes.Equal(got, f.text) {
			t.Errorf("whole: %q, %v", got, err)
		}
	} else if _, ok := lender.Freeze(ctx, 15*time.Second); ok && f.finale == "" {
		again := req.WithContext(ctx)
		lender.Attach(again)
		if err := f.verify(again.Body, r, len(f.text)+1); err != io.EOF {
			t.Errorf("the lender got %v", err)
		}
	}
	lender.Release(r.IntN(2) == 0)
	time.Sleep(time.Duration(r.IntN(20)) * time.Second)
	cancel()
	time.Sleep(time.Duration(r.IntN(20)) * time.Second)
	close(stop)
	close(f.hanging)
	time.Sleep(time.Minute)
	if open, reads := f.opens.Load(), f.reads.Load(); open != 0 || reads != 0 {
		t.Errorf("%d times open, with %d Reads in progress", open, reads)
	}
}

// attempt makes up to four attempts to send out, which is lent.
func (f *fickle) attempt(ctx context.Context, out *http.Request, r *rand.Rand, stop <-chan struct{}) {
	var b Body
	b.Own(out)
	defer func() { b.Release(r.IntN(2) == 0) }()
	if r.IntN(10) == 0 {
		return // the call fails before it shares the body
	}
	b.Share(5, r.IntN(5) == 0)
	for range 4 {
		sending, cancel := context.WithCancel(ctx)
		sent := out.WithContext(sending)
		b.Attach(sent)
		select {
		case <-f.send(sent, r, stop):
		case <-time.After(time.Duration(r.IntN(20_000)) * time.Millisecond):
		}
		context.AfterFunc(ctx, cancel)
		if r.IntN(3) == 0 {
			cancel()
		}
		if r.IntN(4) == 0 || !b.Replayable() {
			return
		}
		if _, ok := b.Freeze(ctx, time.Duration(r.IntN(2000))*time.Millisecond); !ok || r.IntN(10) == 0 {
			return
		}
	}
}
