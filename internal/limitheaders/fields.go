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
	if v.kind == quoted && strings.Contains(v.text, `\`) {
		return escapes.Replace(v.text)
	}
	return v.text
}

var escapes = strings.NewReplacer(`\\`, `\`, `\"`, `"`)

// number returns the item's number, or -1 if it is not a number or is negative.
func (v item) number() float64 {
	if n, ok := number(v.text); ok && v.kind == numeric {
		return n
	}
	return -1
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

// A scanner parses a field from left to right. If it fails, nothing is left, and the
// whole field must be ignored, including the members that were returned before.
type scanner struct {
	left   string
	failed bool
}

func begin(field string) scanner { return scanner{left: strings.Trim(field, " ")} }

// require makes the scanner fail unless ok.
func (s *scanner) require(ok bool) {
	if !ok {
		s.left, s.failed = "", true
	}
}

// listed reads the next member of a list, and reports whether there is one.
func (s *scanner) listed(m *member) bool { return s.member(m, false) }

// keyed reads the next member of a dictionary, and reports whether there is one.
func (s *scanner) keyed(m *member) bool { return s.member(m, true) }

func (s *scanner) member(m *member, keyed bool) bool {
	*m = member{}
	if s.left == "" {
		return false
	}
	if keyed {
		m.key = s.key()
	}
	if !keyed || s.next("=") { // otherwise its value is true
		m.item = s.value()
	}
	s.params(m)
	if s.skip(" \t"); s.left != "" { // there is another one
		s.require(s.next(","))
		s.skip(" \t")
		s.require(s.left != "")
	}
	return !s.failed
}

func (s *scanner) skip(set string) { s.left = strings.TrimLeft(s.left, set) }

// next reads a text if it comes next, and reports whether it does.
func (s *scanner) next(text string) (ok bool) {
	s.left, ok = strings.CutPrefix(s.left, text)
	return ok
}

// peek returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	if s.left == "" {
		return 0
	}
	return s.left[0]
}

func (s *scanner) take(n int) string {
	taken := s.left[:n]
	s.left = s.left[n:]
	return taken
}

// run reads the bytes that come next and are in the class.
func (s *scanner) run(class func(c byte) bool) string {
	n := 0
	for n < len(s.left) && class(s.left[n]) {
		n++
	}
	return s.take(n)
}

// value reads an item or an inner list, which rate limits do not use.
func (s *scanner) value() item {
	if !s.next("(") {
		return s.item()
	}
	for s.skip(" "); !s.next(")") && !s.failed; s.skip(" ") {
		s.item()
		s.params(&member{})
		c := s.peek()
		s.require(c == ' ' || c == ')')
	}
	return item{}
}

func (s *scanner) params(m *member) {
	for s.next(";") {
		s.skip(" ")
		key, value := s.key(), item{}
		if s.next("=") {
			value = s.item()
		}
		m.set(key, value)
	}
}

func (s *scanner) key() string {
	c := s.peek()
	s.require(isLower(c) || c == '*')
	return s.run(func(c byte) bool { return isLower(c) || isDigit(c) || strings.IndexByte("_-.*", c) >= 0 })
}

func (s *scanner) item() (v item) {
	switch c := s.peek(); {
	case isDigit(c) || c == '-':
		return item{numeric, s.number()}
	case s.next(`"`):
		return item{quoted, s.quoted(false)}
	case isLetter(c) || c == '*':
		return item{token, s.run(isTokenByte)}
	case s.next(":"):
		v.text = s.run(func(c byte) bool { return isLetter(c) || isDigit(c) || strings.IndexByte("+/=", c) >= 0 })
		s.require(s.next(":"))
	case s.next("@"):
		s.require(!strings.Contains(s.number(), "."))
	case s.next(`%"`):
		s.quoted(true)
	default:
		s.require(s.next("?0") || s.next("?1"))
	}
	return v
}

func (s *scanner) number() string {
	before := s.left
	s.next("-")
	digits := len(s.run(isDigit))
	s.require(digits >= 1 && digits <= 15)
	if s.next(".") {
		fraction := len(s.run(isDigit))
		s.require(digits <= 12 && fraction >= 1 && fraction <= 3)
	}
	return before[:len(before)-len(s.left)]
}

// quoted reads the rest of a string, or of a display string.
func (s *scanner) quoted(display bool) (text string) {
	for i := 0; i < len(s.left); i++ {
		after := s.left[i+1:]
		switch c := s.left[i]; {
		case c == '"':
			text, s.left = s.left[:i], after
			return text
		case c == '\\' && !display:
			s.require(strings.HasPrefix(after, `"`) || strings.HasPrefix(after, `\`))
			i++
		case c == '%' && display:
			s.require(len(after) >= 2 && isHex(after[0]) && isHex(after[1]))
			i += 2
		case c < ' ' || c > '~':
			s.require(false)
		}
	}
	s.require(false)
	return ""
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLower(c byte) bool  { return c >= 'a' && c <= 'z' }
func isLetter(c byte) bool { return isLower(c | 0x20) }
func isHex(c byte) bool    { return isDigit(c) || c >= 'a' && c <= 'f' }

func isTokenByte(c byte) bool {
	return isLetter(c) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
}
