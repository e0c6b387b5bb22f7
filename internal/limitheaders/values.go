package limitheaders

import (
	"strconv"
	"strings"
	"time"
)

// number parses a number that is not negative. It rejects most other texts without
// allocating.
func number(text string) (n float64, ok bool) {
	text = strings.TrimSpace(text)
	exact := len(text) <= 15
	for i := range len(text) {
		if c := text[i]; isDigit(c) {
			n = 10*n + float64(c-'0')
		} else if strings.IndexByte("+-.eE", c) >= 0 {
			exact = false
		} else {
			return 0, false
		}
	}
	if exact || text == "" {
		return n, text != ""
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	return max(n, 0), true // not -0
}

// nth returns the number at an index of a value, or the first one if there are fewer.
func nth(value string, place int) (n float64, ok bool) {
	if n, ok = number(value); ok || value == "" {
		return n, ok
	}
	text, _, _ := strings.Cut(nthText(value, place), ";")
	return number(text)
}

// nthText returns the text at an index of a value, or the first one if there are
// fewer. A date counts as one text, although it has a comma.
func nthText(value string, place int) string {
	first, rest, isList := strings.Cut(strings.TrimSpace(value), ",")
	if !isList || first != "" && isLetter(first[0]) {
		return strings.TrimSpace(value)
	}
	text := first
	for range place {
		var more bool
		if text, rest, more = strings.Cut(rest, ","); !more && text == "" {
			return first
		}
	}
	return strings.TrimSpace(text)
}

// quotaOf returns the quota at an index of a value or, if more remains than that, the
// lowest other that is not exceeded, or 0.
func quotaOf(value string, place int, remaining float64) (quota float64) {
	if quota, _ = nth(value, place); quota >= remaining {
		return quota
	}
	quota = 0
	for place := range min(1+strings.Count(value, ","), 2*MostRead) {
		if n, ok := nth(value, place); ok && n >= remaining && (quota == 0 || n < quota) {
			quota = n
		}
	}
	return quota
}

// least returns the lowest of the first MostRead numbers in a value, the window that
// follows it in Docker Hub's format, and its index, or -1 if there is no number. It
// skips a 0 whose quota is 0, which means that there is no limit, as Brave documents.
func least(value, quotas string) (n float64, window time.Duration, at int) {
	if n, ok := number(value); ok && n > 0 {
		return n, 0, 0
	}
	at = -1
	place := -1
	for text := range strings.SplitSeq(value, ",") {
		if place++; place == MostRead {
			break
		}
		text, params, _ := strings.Cut(text, ";")
		m, ok := number(text)
		if !ok || at >= 0 && m >= n {
			continue
		}
		if all, said := nth(quotas, place); m == 0 && said && all == 0 {
			continue
		}
		n, at, window = m, place, 0
		if w, ok := strings.CutPrefix(strings.TrimSpace(params), "w="); ok {
			s, _ := number(w)
			window = inSeconds(s)
		}
	}
	return n, window, at
}
