package replay

import (
	"hash/maphash"
	"io"
	"sync"
)

// maxPassing is the size of the largest Read of bytes that are not kept.
const maxPassing = 16 << 10

// A passing is the part of a body that is read and not kept. What a later reader
// returns is compared with it by a hash. It is guarded by the mutex of its stream.
type passing struct {
	n    int64        // bytes that the present reader has returned
	hash maphash.Hash // of these bytes
	most extent       // of the reader that came farthest

	bytes []byte  // what was read and no copy has taken
	room  []byte  // the buffer of the Read in progress, or nil
	buf   *[]byte // of the pool; room and bytes are parts of it
}

// An extent is how far a reader came.
type extent struct {
	n     int64
	sum   uint64 // hash of the n bytes
	ended bool   // they are all
}

var buffers = sync.Pool{New: func() any { b := make([]byte, maxPassing); return &b }}

// compares reports whether an earlier reader has passed bytes.
func (p *passing) compares() bool { return p.most != extent{} }

// begin returns the buffer of a Read of up to n bytes. The Read does not cross the
// extent with which the bytes are compared.
func (p *passing) begin(n int) []byte {
	if p.buf == nil {
		p.buf = buffers.Get().(*[]byte)
	}
	n = min(n, maxPassing)
	if left := p.most.n - p.n; left > 0 {
		n = int(min(int64(n), left))
	}
	p.room = (*p.buf)[:n]
	return p.room
}

// add adds the n bytes and the error that the Read has returned. It reports whether
// they may be those that an earlier reader has returned. If not, they are dropped.
func (p *passing) add(n int, err error) bool {
	read, before := p.room[:n], p.n
	p.room = nil
	p.hash.Write(read)
	p.n += int64(n)
	switch {
	case p.n < p.most.n:
		if err == io.EOF {
			return false
		}
	case before < p.most.n && p.hash.Sum64() != p.most.sum:
		return false
	case n > 0 && before >= p.most.n && p.most.ended:
		return false
	default:
		p.most = extent{p.n, p.hash.Sum64(), p.most.ended || err == io.EOF}
	}
	p.bytes = read
	return true
}

// take copies bytes into dst.
func (p *passing) take(dst []byte) int {
	n := copy(dst, p.bytes)
	if p.bytes = p.bytes[n:]; len(p.bytes) == 0 {
		p.drop()
	}
	return n
}

// drop discards bytes. There must be no Read in progress.
func (p *passing) drop() {
	p.bytes = nil
	if p.buf != nil {
		buffers.Put(p.buf)
		p.buf = nil
	}
}

// rewind begins with another reader.
func (p *passing) rewind() {
	p.drop()
	p.n = 0
	p.hash.Reset()
}
