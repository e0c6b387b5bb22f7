// Package byterange knows which bytes of an object a response has, how the rest
// is requested if its body breaks off, and whether a response is that rest. It
// reads a body that continues with it.
package byterange

import (
	"math"
	"net/http"
	"strconv"
	"strings"
)

// A Span is a part of an object, maybe all of it.
type Span struct {
	First int64
	Last  int64 // negative if it is unknown, or if Total is 0
	Total int64 // of the object; negative if it is unknown
	Open  bool  // it goes on to the end of the object
}

// Length returns how many bytes the span has, if that is known.
func (s Span) Length() (n int64, known bool) {
	return s.Last - s.First + 1, s.Last >= 0 || s.Total == 0
}

// Contains reports whether s may contain a part that ends with the byte last of
// an object of total bytes. A total below 0 is unknown.
func (s Span) Contains(last, total int64) bool {
	return (s.Last < 0 || last <= s.Last) && (s.Total < 0 || total < 0 || total == s.Total)
}

// Field returns the lines of a header field as one line (RFC 9110, section
// 5.3). Several lines do not look like the one line that is expected.
func Field(header http.Header, name string) string { return strings.Join(header.Values(name), ", ") }

// hasContent reports whether req is a GET and the response to it has an object or
// a part of one.
func hasContent(req *http.Request, resp *http.Response) bool {
	return (req.Method == "" || req.Method == http.MethodGet) && resp.ContentLength != 0 && resp.Body != http.NoBody &&
		(resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent)
}

// Resumable returns which part of the object the response to req has. If the rest
// of it cannot be requested, why is the reason. It completes the sentence "the
// body is not continued: ".
func Resumable(req *http.Request, resp *http.Response) (part Span, why string) {
	etag := Field(resp.Header, "Etag")
	switch {
	case req.Method != "" && req.Method != http.MethodGet:
		return Span{}, "the method is not GET"
	case req.Body != nil && req.Body != http.NoBody:
		return Span{}, "the request has a body"
	case resp.Uncompressed:
		return Span{}, "it was decompressed"
	case resp.ContentLength == 0, resp.Body == http.NoBody:
		return Span{}, "it is empty"
	case resp.StatusCode == http.StatusPartialContent && resp.ContentLength < 0 &&
		Field(resp.Header, "Content-Encoding") != "":
		return Span{}, "it is a range with a Content-Encoding and no length, perhaps compressed by itself"
	case strings.EqualFold(resp.Header.Get("Accept-Ranges"), "none"):
		return Span{}, "the service does not support range requests (Accept-Ranges: none)"
	case etag == "":
		return Span{}, "it has no ETag"
	case strings.HasPrefix(etag, "W/"):
		return Span{}, "its ETag is weak" // it does not identify bytes
	case len(etag) < 2 || etag[0] != '"' || etag[len(etag)-1] != '"':
		return Span{}, "its ETag is not in quotes"
	case strings.Contains(etag[1:len(etag)-1], `"`):
		return Span{}, "it has several ETags"
	}
	part, ok := Of(req, resp)
	if !ok {
		return Span{}, "it is not a whole object, nor the one range that the request asks for"
	}
	return part, ""
}

// Of returns which part of the object the response to req has.
func Of(req *http.Request, resp *http.Response) (part Span, ok bool) {
	switch resp.StatusCode {
	case http.StatusOK:
		return Span{Last: resp.ContentLength - 1, Total: resp.ContentLength, Open: true}, true
	case http.StatusPartialContent:
		first, last, total, ok := ContentRange(resp)
		if !ok {
			return Span{}, false
		}
		asked, ok := strings.CutPrefix(req.Header.Get("Range"), "bytes=")
		from, to, single := strings.Cut(asked, "-")
		if n := resp.ContentLength; !ok || !single || strings.Contains(to, ",") || n >= 0 && n != last-first+1 {
			return Span{}, false
		}
		if from == "" { // the last bytes of an object
			n, err := strconv.ParseUint(to, 10, 63)
			if err != nil || last-first >= int64(n) || total >= 0 && last != total-1 {
				return Span{}, false
			}
			return Span{First: first, Last: last, Total: total}, true
		}
		if start, err := strconv.ParseInt(from, 10, 64); err != nil || start != first {
			return Span{}, false
		}
		open := to == "" && last == total-1 // or else the service sends less than what is asked for
		return Span{First: first, Last: last, Total: total, Open: open}, true
	}
	return Span{}, false
}

// ContentRange returns which bytes of the object a 206 has, by its
// Content-Range. total is -1 if it is unknown.
func ContentRange(resp *http.Response) (first, last, total int64, ok bool) {
	value, ok := strings.CutPrefix(Field(resp.Header, "Content-Range"), "bytes ")
	if !ok || strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "multipart/byteranges") {
		return 0, 0, 0, false
	}
	ends, size, found := strings.Cut(value, "/")
	from, to, isRange := strings.Cut(ends, "-")
	first, err := strconv.ParseInt(from, 10, 64)
	last, err2 := strconv.ParseInt(to, 10, 64)
	if !found || !isRange || err != nil || err2 != nil || first < 0 || last < first || last == math.MaxInt64 {
		return 0, 0, 0, false
	}
	if size == "*" {
		return first, last, -1, true
	}
	total, err = strconv.ParseInt(size, 10, 64)
	return first, last, total, err == nil && last < total
}

// Unsatisfied returns the length of the object that a 416 has, by its
// Content-Range.
func Unsatisfied(resp *http.Response) (total int64, ok bool) {
	value, ok := strings.CutPrefix(Field(resp.Header, "Content-Range"), "bytes */")
	total, err := strconv.ParseInt(value, 10, 64)
	return total, ok && err == nil && total >= 0
}
