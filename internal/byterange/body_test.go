package byterange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"example.com/awsretry/internal/worlds"
)

// A part is the body of a response, which breaks off before its end or after it.
type part struct {
	data    []byte
	err     error // after data
	ends    bool  // data has the end of the object
	brought int
	closed  int
	settled []bool
}

func (p *part) Read(buf []byte) (int, error) {
	if p.brought == len(p.data) {
		return 0, p.err
	}
	n := copy(buf, p.data[p.brought:])
	p.brought += n
	return n, nil
}

func (p *part) Close() error { p.closed++; return nil }

func (p *part) settle(ok bool) { p.settled = append(p.settled, ok) }

// Whatever breaks off, a body is that of the object. Each response with the rest is
// closed, and settled once by what became of it.
func TestBody(t *testing.T) {
	errRefused := errors.New("refused")
	worlds.Each(t, 1000, func(t *testing.T, r *rand.Rand) {
		object := make([]byte, 1+r.IntN(3*realProgress))
		for i := range object {
			object[i] = byte(r.Uint32())
		}
		var parts []*part
		send := func(from int) *part {
			to := from + r.IntN(len(object)-from+1)
			switch {
			case worlds.Chance(r, .4):
				to = len(object)
			case worlds.Chance(r, .1):
				to = min(from+realProgress, len(object))
			}
			p := &part{data: object[from:to], ends: to == len(object), err: worlds.Pick(r, io.EOF, io.ErrUnexpectedEOF)}
			parts = append(parts, p)
			return p
		}
		req, first := request("GET", ""), response(http.StatusOK, "Etag", `"1"`)
		first.ContentLength, first.Body = int64(len(object)), send(0)
		progress, why := Begin(req, first)
		if why != "" {
			t.Fatal(why)
		}
		var b Body
		b.Begin(req, first, progress)
		var refused, inTime, closed bool // inTime: refused before it was closed
		refusal := new(part)
		closeNow := func(chance float64) {
			if worlds.Chance(r, chance) {
				closed = true
				b.Close()
			}
		}
		rest := func(ctx context.Context, _ error, much bool) (*http.Response, func(bool), error) {
			if last := parts[len(parts)-1]; much != (last.brought >= realProgress) {
				t.Errorf("much is %v after %d bytes", much, last.brought)
			}
			header := make(http.Header)
			from := b.Progress.Ask(header)
			if refused = worlds.Chance(r, .1); refused {
				closeNow(.5)
				inTime = !closed
				return nil, refusal.settle, errRefused
			}
			closeNow(.05)
			if (ctx.Err() != nil) != closed {
				t.Errorf("closed: %v, and the request's context has %v", closed, ctx.Err())
			}
			resp := response(http.StatusPartialContent, "Etag", `"1"`,
				"Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(object)-1, len(object)))
			if from == 0 {
				resp.StatusCode = http.StatusOK
			}
			p := send(int(from))
			resp.Body = p
			return resp, p.settle, b.Progress.Continue(resp, from)
		}
		fail := func(err error, _ bool) error { t.Error(err); return err }
		var got []byte
		var err error
		for buf := make([]byte, 1+r.IntN(2*realProgress)); err == nil; closeNow(.02) {
			var n int
			n, err = b.Read(buf, rest, fail)
			got = append(got, buf[:n]...)
		}
		b.Close()
		if !bytes.HasPrefix(object, got) || err == io.EOF && len(got) < len(object) {
			t.Errorf("%d bytes of %d, %v", len(got), len(object), err)
		}
		if err != io.EOF && !(inTime && err == errRefused) && !(closed && err == http.ErrBodyReadAfterClose) {
			t.Errorf("refused: %v, closed: %v, %v", refused, closed, err)
		}
		if refused && !slices.Equal(refusal.settled, []bool{!inTime}) {
			t.Errorf("refused, closed before: %v, settled %v", !inTime, refusal.settled)
		}
		for i, p := range parts {
			last := i == len(parts)-1
			ok := p.brought >= realProgress || last && !refused && (closed || p.ends)
			if i > 0 && !slices.Equal(p.settled, []bool{ok}) || p.closed == 0 {
				t.Errorf("response %d of %d, %d of %d bytes: settled %v, want %v; closed %d times",
					i, len(parts), p.brought, len(p.data), p.settled, ok, p.closed)
			}
		}
	})
}
