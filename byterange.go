package awsretry

import (
	"math"
	"net/http"
	"strconv"
	"strings"
)

// A span is a part of an object. It is the whole object if both ends are.
type span struct {
	first int64
	last  int64 // below 0: unknown
	total int64 // of the object; below 0: unknown
	open  bool  // it goes on to the end of the object
}

// length returns how many bytes the span has, if that is known.
func (s span) length() (n int64, known bool) { return s.last - s.first + 1, s.last >= 0 }

// ends reports whether s may end with the byte last of an object of total
// bytes, of which the latter may be unknown.
func (s span) ends(last, total int64) bool {
	if s.last < 0 {
		return last == total-1 // or else the object may go on
	}
	return last == s.last && (s.total < 0 || total < 0 || total == s.total)
}

// spanOf returns what part of the object the response has.
func spanOf(req *http.Request, resp *http.Response) (span, bool) {
	switch resp.StatusCode {
	case http.StatusOK:
		return span{last: resp.ContentLength - 1, total: resp.ContentLength, open: true}, true
	case http.StatusPartialContent:
		first, last, total, ok := contentRange(resp)
		if !ok {
			return span{}, false
		}
		asked, ok := strings.CutPrefix(req.Header.Get("Range"), "bytes=")
		from, to, single := strings.Cut(asked, "-")
		if start, err := strconv.ParseInt(from, 10, 64); !ok || !single || err != nil || start != first {
			return span{}, false // several ranges, or the last bytes of an object
		}
		if n := resp.ContentLength; n >= 0 && n != last-first+1 {
			return span{}, false
		}
		open := to == "" && last == total-1 // or else the service sends less than what is asked for
		return span{first: first, last: last, total: total, open: open}, !strings.Contains(to, ",")
	}
	return span{}, false
}

// contentRange returns which bytes of the object a 206 has, by its
// Content-Range. total is -1 if it is unknown.
func contentRange(resp *http.Response) (first, last, total int64, ok bool) {
	value, ok := strings.CutPrefix(resp.Header.Get("Content-Range"), "bytes ")
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
