package limitheaders

import "strings"

// A member is a member of a list or dictionary in a structured field (RFC 9651).
type member struct {
	key string // in a dictionary
	item
	r, t, q, w item // the parameters of a rate limit; the last of each name counts
	pk, qu     item
}

// An item is a bare item. Its text is a substring of the field.
type item struct {
	kind kind
	text string // without quotation marks
}

type kind int

const (
	other kind = iota // a type that rate limits do not use
	numeric
	quoted
	token
)

// isName reports whether the item is a string or a token.
func (v item) isName() bool { return v.kind == quoted || v.kind == token }

// name returns the text of a string or a token.
func (v item) name() string {
	if v.kind != quoted || !strings.Contains(v.text, `\`) {
		return v.text
	}
	var b strings.Builder
	for i := 0; i < len(v.text); i++ {
		if v.text[i] == '\\' {
			i++
		}
		b.WriteByte(v.text[i])
	}
	return b.String()
}

// number returns the item's number, or -1 if it is not a number or is negative.
func (v item) number() float64 {
	if n, ok := number(v.text); ok && v.kind == numeric {
		return n
	}
	return -1
}

// A scanner parses a field from left to right. Its methods report whether they found
// what they parse. If failed is set, the whole field must be ignored, including the
// members that were returned before.
type scanner struct {
	left   string
	failed bool
}

func begin(field string) scanner { return scanner{left: strings.Trim(field, " ")} }

// listed reads the next member of a list.
func (s *scanner) listed(m *member) bool {
	*m = member{}
	return s.left != "" && s.check(s.member(m) && s.comma())
}

// keyed reads the next member of a dictionary.
func (s *scanner) keyed(m *member) (ok bool) {
	*m = member{}
	if s.left == "" {
		return false
	}
	m.key, ok = s.key()
	switch {
	case !ok:
	case s.next("="):
		ok = s.member(m)
	default: // true
		ok = s.params(m)
	}
	return s.check(ok && s.comma())
}

func (s *scanner) check(ok bool) bool {
	s.failed = !ok
	return ok
}

// comma reads the separator between two members, or nothing at the end of the field.
func (s *scanner) comma() bool {
	s.skip(" \t")
	if s.left == "" {
		return true
	}
	if !s.next(",") {
		return false
	}
	s.skip(" \t")
	return s.left != ""
}

func (s *scanner) skip(set string) { s.left = strings.TrimLeft(s.left, set) }

func (s *scanner) next(text string) bool {
	left, ok := strings.CutPrefix(s.left, text)
	s.left = left
	return ok
}

// take removes the first n bytes and returns them.
func (s *scanner) take(n int) string {
	taken := s.left[:n]
	s.left = s.left[n:]
	return taken
}

// run returns the number of leading bytes that are in the class.
func (s *scanner) run(class func(c byte) bool) int {
	n := 0
	for n < len(s.left) && class(s.left[n]) {
		n++
	}
	return n
}

func (s *scanner) member(m *member) (ok bool) {
	if s.next("(") {
		ok = s.inner()
	} else {
		m.item, ok = s.item()
	}
	return ok && s.params(m)
}

// inner reads an inner list after its opening parenthesis.
func (s *scanner) inner() bool {
	for {
		s.skip(" ")
		if s.next(")") {
			return true
		}
		if _, ok := s.item(); !ok {
			return false
		}
		if !s.params(&member{}) {
			return false
		}
		if s.left == "" || s.left[0] != ' ' && s.left[0] != ')' {
			return false
		}
	}
}

func (s *scanner) params(m *member) bool {
	for s.next(";") {
		s.skip(" ")
		key, ok := s.key()
		value := item{}
		if ok && s.next("=") {
			value, ok = s.item()
		}
		if !ok {
			return false
		}
		m.set(key, value)
	}
	return true
}

// set sets a parameter of a rate limit: in the words of the drafts, of draft 7, or of
// Zendesk.
func (m *member) set(key string, value item) {
	switch key {
	case "r", "remaining":
		m.r = value
	case "t", "reset", "resets":
		m.t = value
	case "q", "limit", "total":
		m.q = value
	case "w":
		m.w = value
	case "pk":
		m.pk = value
	case "qu":
		m.qu = value
	}
}

func (s *scanner) key() (string, bool) {
	if s.left == "" || !isLower(s.left[0]) && s.left[0] != '*' {
		return "", false
	}
	return s.take(s.run(func(c byte) bool {
		return isLower(c) || isDigit(c) || strings.IndexByte("_-.*", c) >= 0
	})), true
}

func (s *scanner) item() (v item, ok bool) {
	if s.left == "" {
		return v, false
	}
	switch c := s.left[0]; {
	case isDigit(c) || c == '-':
		v.kind = numeric
		v.text, ok = s.number()
	case c == '"':
		v.kind = quoted
		v.text, ok = s.quoted()
	case isLetter(c) || c == '*':
		v.kind = token
		v.text, ok = s.take(s.run(isTokenByte)), true
	case c == '?':
		ok = s.next("?0") || s.next("?1")
	case c == ':':
		s.take(1)
		v.text = s.take(s.run(func(c byte) bool { return isLetter(c) || isDigit(c) || strings.IndexByte("+/=", c) >= 0 }))
		ok = s.next(":")
	case c == '@':
		s.take(1)
		v.text, ok = s.number()
		ok = ok && !strings.Contains(v.text, ".")
	case c == '%':
		s.take(1)
		ok = s.display()
	}
	return v, ok
}

func (s *scanner) number() (text string, ok bool) {
	before := s.left
	s.next("-")
	digits := s.run(isDigit)
	s.take(digits)
	ok = digits >= 1 && digits <= 15
	if s.next(".") {
		fraction := s.run(isDigit)
		s.take(fraction)
		ok = digits >= 1 && digits <= 12 && fraction >= 1 && fraction <= 3
	}
	return before[:len(before)-len(s.left)], ok
}

func (s *scanner) quoted() (text string, ok bool) {
	for i := 1; i < len(s.left); i++ {
		switch c := s.left[i]; {
		case c == '"':
			text = s.left[1:i]
			s.left = s.left[i+1:]
			return text, true
		case c == '\\':
			if i++; i == len(s.left) || s.left[i] != '"' && s.left[i] != '\\' {
				return "", false
			}
		case c < ' ' || c > '~':
			return "", false
		}
	}
	return "", false
}

// display reads a display string after its percent sign.
func (s *scanner) display() bool {
	if !s.next(`"`) {
		return false
	}
	for {
		s.take(s.run(func(c byte) bool { return c >= ' ' && c <= '~' && c != '%' && c != '"' }))
		if s.next(`"`) {
			return true
		}
		if !s.next("%") || len(s.left) < 2 || !isHex(s.left[0]) || !isHex(s.left[1]) {
			return false
		}
		s.take(2)
	}
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLower(c byte) bool  { return c >= 'a' && c <= 'z' }
func isLetter(c byte) bool { return isLower(c | 0x20) }
func isHex(c byte) bool    { return isDigit(c) || c >= 'a' && c <= 'f' }

func isTokenByte(c byte) bool {
	return isLetter(c) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
}
