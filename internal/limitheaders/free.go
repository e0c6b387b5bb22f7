package limitheaders

import (
	"net/http"
	"slices"
	"strings"
)

// Free reports whether a response shows that the service did not count its request:
// a 304 (RFC 9110), or a response from a cache.
func Free(status int, header http.Header) bool {
	return status == http.StatusNotModified || fromCache(header)
}

// fromCache reports whether a response came from a cache: its Age is above 0, or
// a header names a hit. An Age of 0 does not count, because some caches send it with
// a miss.
func fromCache(header http.Header) bool {
	for _, value := range header["Age"] {
		if age, ok := number(value); ok && age > 0 {
			return true
		}
	}
	return slices.ContainsFunc(header["X-Cache"], saysHit) || slices.ContainsFunc(header["Cache-Status"], saysHit)
}

// saysHit reports whether a word in the text is hit, or ends with _hit. The word
// hit-for-pass does not count.
func saysHit(text string) bool {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r > 'z' || r != '-' && !isLetter(byte(r)) }) {
		if strings.EqualFold(word, "hit") {
			return true
		}
	}
	return false
}
