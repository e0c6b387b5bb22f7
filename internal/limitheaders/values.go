package limitheaders

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// mostElements is how many elements of a value are read.
const mostElements = 2 * MostRead

// An element is a part of a value between commas: a number, with a window as in
// 76;w=21600 from Docker Hub, or after the name of a limit as in a/b;107 from Azure.
type element struct {
	name   string
	number float64       // negative if there is none
	window time.Duration // 0 if there is none
}

// nextElement returns the first element of a value, and the rest of the value.
func nextElement(value string) (e element, rest string) {
	text, rest, _ := strings.Cut(value, ",")
	text, after, _ := strings.Cut(strings.TrimSpace(text), ";")
	n, ok := number(text)
	if w, found := strings.CutPrefix(strings.TrimSpace(after), "w="); found {
		s, _ := number(w)
		e.window = inSeconds(s)
	} else if !ok && text != "" && isLetter(text[0]) {
		e.name = text
		n, ok = number(after)
	}
	if e.number = n; !ok {
		e.number = -1
	}
	return e, rest
}

// number parses a number that is not negative. It rejects most other texts without
// allocating.
func number(text string) (n float64, ok bool) {
	const most = 64 // bytes, since the same number is read for each element of another value
	text = strings.TrimSpace(text)
	digits := 0
	for ; digits < min(len(text), 15) && isDigit(text[digits]); digits++ { // 15 are exact
		n = 10*n + float64(text[digits]-'0')
	}
	if digits == len(text) {
		return n, digits > 0
	}
	if len(text) > most || strings.Trim(text, "0123456789+-.eE") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	return max(n, 0), true // not -0
}

// nth returns the number at an index of a value, or the first one if there are fewer.
func nth(value string, at int) (n float64, ok bool) {
	if n, ok = number(value); !ok {
		text, _, _ := strings.Cut(nthText(value, at), ";")
		n, ok = number(text)
	}
	return n, ok
}

// nthText returns the text at an index of a value, or the first one if there are
// fewer. A date counts as one text, although it has a comma.
func nthText(value string, at int) string {
	value = strings.TrimSpace(value)
	if value == "" || isLetter(value[0]) {
		return value
	}
	first, rest, _ := strings.Cut(value, ",")
	text := first
	for range at {
		text, rest, _ = strings.Cut(rest, ",")
	}
	return strings.TrimSpace(cmp.Or(text, first))
}

// quotaOf returns the lowest number of a value that is not below what remains, or 0.
func quotaOf(value string, remaining float64) (quota float64) {
	for at := range min(1+strings.Count(value, ","), mostElements) {
		if n, ok := nth(value, at); ok && n >= remaining && (quota == 0 || n < quota) {
			quota = n
		}
	}
	return quota
}
