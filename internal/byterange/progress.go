package byterange

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// overlap is how many bytes of a body with a Content-Encoding are requested
// again and compared. A service that compresses on the fly may compress each
// range of the plain bytes by itself.
const overlap = 16

// A Progress is how much of a response body was read, and what identifies the
// rest of it. Several responses may bring the body, one after the other.
type Progress struct {
	etag        string
	encoding    string // the Content-Encoding
	contentType string
	span        Span // what the body has, of the object

	offset int64         // bytes that were read
	tail   [overlap]byte // the last of them

	// The response that is read.
	skip int64 // bytes of it that were read before
	end  int64 // the offset at its end; negative if it is unknown
}

// A ContentError reports bytes that are not those of the body.
type ContentError struct {
	text    string
	differs bool // bytes that were read again are not the same
}

func (e *ContentError) Error() string { return e.text }

// Begin returns the Progress of a body of which nothing was read. If the rest
// of it cannot be requested, why says so, as the end of the sentence "the body
// is not continued: ".
func Begin(req *http.Request, resp *http.Response) (p Progress, why string) {
	part, why := Resumable(req, resp)
	if why != "" {
		return Progress{}, why
	}
	p = Progress{
		etag: Field(resp.Header, "Etag"), encoding: Field(resp.Header, "Content-Encoding"),
		contentType: resp.Header.Get("Content-Type"), span: part, end: -1,
	}
	if length, known := part.Length(); known {
		p.end = length
	}
	return p, ""
}

// Offset returns how many bytes of the body were read.
func (p *Progress) Offset() int64 { return p.offset }

// Position returns the position in the object of the first byte of the rest.
func (p *Progress) Position() int64 { return p.span.First + p.offset }

// AtEnd reports whether the body ends if the current response does.
func (p *Progress) AtEnd() bool { return p.hasAll() || p.end < 0 && p.skip == 0 }

// Complete reports whether nothing is left to read. It is false if the length
// of the body is unknown.
func (p *Progress) Complete() bool { return p.hasAll() && p.skip == 0 }

func (p *Progress) hasAll() bool {
	length, known := p.span.Length()
	return known && p.offset == length
}

// Exhausted reports whether the current response has brought all that it
// announced.
func (p *Progress) Exhausted() bool { return p.offset == p.end && p.skip == 0 }

// Read reads bytes from src, the body of the current response, that were not
// read before. The error is that of src, or a *ContentError.
func (p *Progress) Read(src io.Reader, buf []byte) (int, error) {
	if err := p.readAgain(src, buf); err != nil {
		return 0, err
	}
	if p.end >= 0 && p.end-p.offset < int64(len(buf)) {
		buf = buf[:max(p.end-p.offset, 0)+1] // one more shows a body that is too long
	}
	n, err := src.Read(buf)
	if p.end >= 0 && p.offset+int64(n) > p.end {
		n = int(p.end - p.offset)
		err = &ContentError{text: fmt.Sprintf("the body is longer than the %d bytes that were announced", p.end)}
	}
	p.advance(buf[:n])
	return n, err
}

// readAgain reads the bytes that were read before. Those that are known must be
// the same.
func (p *Progress) readAgain(src io.Reader, buf []byte) error {
	for p.skip > 0 {
		n, err := src.Read(buf[:min(int64(len(buf)), p.skip)])
		for i, c := range buf[:n] {
			if before := p.skip - int64(i); before <= overlap && c != p.tail[overlap-before] {
				return &ContentError{"the service sent other bytes than before under the same ETag: " +
					"it has replaced the object, or compresses each response by itself", true}
			}
		}
		p.skip -= int64(n)
		if err != nil && (err != io.EOF || p.skip > 0) {
			return err
		}
	}
	return nil
}

func (p *Progress) advance(read []byte) {
	n := len(read)
	p.offset += int64(n)
	if n < overlap {
		copy(p.tail[:], p.tail[n:])
	}
	copy(p.tail[max(overlap-n, 0):], read[max(n-overlap, 0):])
}

// whole reports whether the body is that of a whole object.
func (p *Progress) whole() bool { return p.span.First == 0 && p.span.Open }

// Ask changes the headers of the caller's request to those of a request for the
// rest. It returns the first byte that the request asks for, counted from the
// beginning of the body. If nothing of a whole object was read, it is the same
// request again.
func (p *Progress) Ask(header http.Header) (from int64) {
	if p.offset == 0 && p.whole() && Field(header, "Range") == "" {
		header.Del("If-Range")
		return 0
	}
	from = p.offset
	if p.encoding != "" {
		from = max(from-overlap, 0)
	}
	part := fmt.Sprintf("bytes=%d-", p.span.First+from)
	if !p.span.Open {
		part += strconv.FormatInt(p.span.Last, 10)
	}
	header.Set("Range", part)
	header.Set("If-Range", p.etag)
	return from
}

// EndsWith reports whether the response to a request for the rest says that
// there is none, of a body whose length is unknown: only its end was lost. A
// response without an ETag may be about another version, from a service that
// ignores If-Range.
func (p *Progress) EndsWith(resp *http.Response) bool {
	if _, known := p.span.Length(); known || p.encoding != "" ||
		resp.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		return false
	}
	total, ok := Unsatisfied(resp)
	return ok && total == p.Position() && Field(resp.Header, "Etag") == p.etag
}

// Continue makes resp, the response to a request for the rest from the byte
// that Ask returned, the one that is read. It returns an error if resp is not
// the rest of the same version of the object.
func (p *Progress) Continue(resp *http.Response, from int64) error {
	again := ""
	switch resp.StatusCode {
	case http.StatusPartialContent:
	case http.StatusOK:
		again = "; it sent the whole object again"
	default:
		return fmt.Errorf("the service responded to the request for the rest with %d", resp.StatusCode)
	}
	if etag := Field(resp.Header, "Etag"); etag != p.etag {
		return fmt.Errorf("the object has changed: its ETag is %q, it was %q%s", etag, p.etag, again)
	}
	if encoding := Field(resp.Header, "Content-Encoding"); encoding != p.encoding || resp.Uncompressed {
		return fmt.Errorf("the service sent the rest with another Content-Encoding, %q; it was %q", encoding, p.encoding)
	}
	if _, known := p.span.Length(); p.offset > 0 && p.encoding != "" && !known &&
		(again != "" || resp.ContentLength < 0 || p.offset <= overlap) {
		return fmt.Errorf("the service may compress each response by itself: the body has no length "+
			"and the Content-Encoding %q", p.encoding)
	}
	if again != "" {
		return p.continueWhole(resp)
	}
	return p.continuePart(resp, from)
}

// continueWhole is Continue for a response with the whole object.
func (p *Progress) continueWhole(resp *http.Response) error {
	contentType := resp.Header.Get("Content-Type")
	length, known := p.span.Length()
	n := resp.ContentLength
	switch {
	case !p.whole():
		return errors.New("the service does not support range requests; it sent the whole object again")
	case contentType != p.contentType:
		return fmt.Errorf("the service sent the object again with another Content-Type, %q; it was %q",
			contentType, p.contentType)
	case known && n >= 0 && n != length, n >= 0 && n < p.offset:
		return fmt.Errorf("the service sent the object again with another length, %d bytes", n)
	}
	if n >= 0 {
		p.span.Last, p.span.Total = n-1, n
		length = n
	} else if !known {
		length = -1
	}
	p.skip, p.end = p.offset, length
	return nil
}

// continuePart is Continue for a response with a part of the object.
func (p *Progress) continuePart(resp *http.Response, from int64) error {
	first, last, total, ok := ContentRange(resp)
	if !ok || first != p.span.First+from || last+1 < p.Position() || !p.span.Contains(last, total) {
		return fmt.Errorf("the service sent another part than the one from byte %d on, its Content-Range is %q",
			p.span.First+from, Field(resp.Header, "Content-Range"))
	}
	if n := resp.ContentLength; n >= 0 && n != last-first+1 {
		return fmt.Errorf("the service sent %d bytes with the Content-Range %q", n, Field(resp.Header, "Content-Range"))
	}
	if p.span.Last < 0 && total >= 0 {
		p.span.Last = total - 1
	}
	if total >= 0 {
		p.span.Total = total
	}
	p.skip, p.end = p.offset-from, last-p.span.First+1
	return nil
}
