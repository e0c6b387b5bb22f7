package respbody

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"
)

// Readable reports whether Plain can decode a body with these headers: it has no
// Content-Encoding, or one of gzip and deflate.
func Readable(h http.Header) bool { return codingOf(h) != unknown }

// A coding is a content coding (RFC 9110, section 8.4.1).
type coding string

const (
	identity coding = ""
	zipped   coding = "gzip"
	deflated coding = "deflate"
	unknown  coding = "unknown" // another coding, or several
)

// codingOf returns the coding of a body with these headers.
func codingOf(h http.Header) coding {
	found := identity
	for _, value := range h["Content-Encoding"] {
		for name := range strings.SplitSeq(value, ",") {
			switch name = strings.ToLower(strings.TrimSpace(name)); {
			case name == "" || name == "identity":
			case found != identity:
				return unknown
			case name == "gzip" || name == "x-gzip":
				found = zipped
			case name == "deflate":
				found = deflated
			default:
				return unknown
			}
		}
	}
	return found
}

// decode returns a reader of src without the coding. It reads the first bytes of
// src.
func (c coding) decode(src io.Reader) (io.Reader, error) {
	in := bufio.NewReader(src)
	if c == zipped {
		zip, err := gzip.NewReader(in)
		return &memberReader{Reader: zip, src: in}, err
	}
	// deflate is the zlib format. Some servers send its data without the header.
	head, err := in.Peek(2)
	if err != nil {
		return nil, err
	}
	if head[0]&0xf == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 { // RFC 1950, section 2.2
		return zlib.NewReader(in)
	}
	return flate.NewReader(in), nil
}

// A memberReader reads gzip data of one or more members. Unlike a gzip.Reader, it
// returns the data of a member without waiting for the next one or for the end of
// the body.
type memberReader struct {
	*gzip.Reader
	src   *bufio.Reader
	ended bool // the current member
}

func (m *memberReader) Read(p []byte) (int, error) {
	if m.ended {
		if err := m.Reset(m.src); err != nil {
			return 0, err
		}
	}
	m.Multistream(false)
	n, err := m.Reader.Read(p)
	if m.ended = err == io.EOF; m.ended {
		err = nil
	}
	return n, err
}

// Plain stops the reading ahead, and returns up to limit bytes of what was read,
// without its Content-Encoding. If the data is cut off or broken, it returns the
// data before that. It returns nothing if the body is not Readable. The caller must
// not modify the bytes.
func (b *Ahead) Plain(limit int) []byte {
	read := b.Stop()
	switch c := codingOf(b.shown.Header); c {
	case identity:
		return read[:min(len(read), limit)]
	case unknown:
		return nil
	default:
		plain, err := c.decode(bytes.NewReader(read))
		if err != nil {
			return nil
		}
		data, _ := io.ReadAll(io.LimitReader(plain, int64(limit)))
		return data
	}
}

// fillDecoding is fill for a body with a coding. enough gets the decoded bytes as
// they arrive, so that each is decoded once. The reading ends when no more can be
// decoded.
func (b *Ahead) fillDecoding(c coding, src *intake, enough func([]byte) bool) {
	plain, err := c.decode(src)
	buf := make([]byte, 0, 512)
	for n := 0; err == nil && len(buf) < src.limit; {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, min(2*cap(buf), src.limit)), buf...)
		}
		n, err = plain.Read(buf[len(buf):min(cap(buf), src.limit)])
		if buf = buf[:len(buf)+n]; n > 0 && enough(buf) {
			return
		}
	}
}

// An intake reads the beginning of a body into memory.
type intake struct {
	ahead *Ahead
	buf   []byte
	limit int
	empty int  // consecutive Reads that returned nothing
	ended bool // there must be no other Read
	taken int  // how much of buf Read has returned
}

// more does one Read of the body, and reports whether another one may follow.
func (in *intake) more() bool {
	const maxEmptyReads = 100 // in a row, as in bufio
	if in.ended = in.ended || len(in.buf) >= in.limit; in.ended {
		return false
	}
	if len(in.buf) == cap(in.buf) {
		in.buf = append(make([]byte, 0, min(2*cap(in.buf), in.limit)), in.buf...)
	}
	n, err := in.ahead.src.Read(in.buf[len(in.buf):min(cap(in.buf), in.limit)])
	in.buf = in.buf[:len(in.buf)+n]
	if in.empty++; n > 0 {
		in.empty = 0
	}
	in.ended = in.ahead.set(in.buf, err) || err != nil || in.empty == maxEmptyReads
	return !in.ended
}

// Read returns the bytes that more reads, for a decoder.
func (in *intake) Read(p []byte) (int, error) {
	for in.taken == len(in.buf) {
		if in.ended || !in.more() && in.taken == len(in.buf) {
			return 0, io.EOF
		}
	}
	n := copy(p, in.buf[in.taken:])
	in.taken += n
	return n, nil
}
