package announced

import (
	"net/http"
	"slices"
	"strings"
)

// Free reports whether a response shows that the service did not count its
// request: one that was not modified (RFC 9110), and one that a cache gave.
func Free(status int, header http.Header) bool {
	return status == http.StatusNotModified || FromCache(header)
}

// FromCache reports whether a cache gave the response: its Age is above 0, or it
// says that it is a hit. Some caches send an Age of 0 with what they did not have.
func FromCache(header http.Header) bool {
	for _, value := range header["Age"] {
		if age, ok := number(value); ok && age > 0 {
			return true
		}
	}
	return slices.ContainsFunc(header["X-Cache"], saysHit) || slices.ContainsFunc(header["Cache-Status"], saysHit)
}

// saysHit reports whether a word of the text is hit, or ends with _hit. A
// hit-for-pass is none.
func saysHit(text string) bool {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r > 'z' || r != '-' && !isLetter(byte(r)) }) {
		if strings.EqualFold(word, "hit") {
			return true
		}
	}
	return false
}
