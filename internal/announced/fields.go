package announced

import "strings"

// A member is one of a list or a dictionary of a structured field (RFC 9651).
// Its texts are parts of the field.
type member struct {
	key    string // in a dictionary
	item   item
	params string
}

type item struct {
	kind kind
	text string // without quotation marks
}

type kind int

const (
	other kind = iota // a kind that no rate limit has
	numeric
	quoted
	token
)

// isName reports whether the member is a string or a token.
func (m *member) isName() bool { return m.item.kind == quoted || m.item.kind == token }

func (m *member) name() string {
	if m.item.kind != quoted || !strings.Contains(m.item.text, `\`) {
		return m.item.text
	}
	var b strings.Builder
	for i := 0; i < len(m.item.text); i++ {
		if m.item.text[i] == '\\' {
			i++
		}
		b.WriteByte(m.item.text[i])
	}
	return b.String()
}

// number returns the parameter of that key, or a negative number.
func (m *member) number(key string) float64 {
	n := -1.0
	for s := (scanner{left: m.params}); s.left != ""; {
		if k, v, ok := s.param(); !ok {
			return -1
		} else if k == key {
			n = v.number()
		}
	}
	return n
}

// text returns the parameter of that key as a text without quotation marks, or "".
func (m *member) text(key string) string {
	text := ""
	for s := (scanner{left: m.params}); s.left != ""; {
		if k, v, ok := s.param(); !ok {
			return ""
		} else if k == key {
			text = v.text
		}
	}
	return text
}

// number returns the item's number, or a negative one.
func (v item) number() float64 {
	if n, ok := number(v.text); ok && v.kind == numeric {
		return n
	}
	return -1
}

// parseList calls visit for the members of a list and reports whether the field
// is one. A field that is not must be ignored, so what visit saw does not count.
func parseList(field string, visit func(member)) bool {
	for s := begin(field); s.left != ""; {
		m, ok := s.member()
		if !ok {
			return false
		}
		visit(m)
		if !s.comma() {
			return false
		}
	}
	return true
}

// parseDictionary is parseList for a dictionary.
func parseDictionary(field string, visit func(member)) bool {
	for s := begin(field); s.left != ""; {
		m := member{}
		key, ok := s.key()
		switch {
		case !ok:
		case s.next("="):
			m, ok = s.member()
		default: // true
			m.params, ok = s.params()
		}
		if !ok {
			return false
		}
		m.key = key
		visit(m)
		if !s.comma() {
			return false
		}
	}
	return true
}

func begin(field string) scanner { return scanner{left: strings.Trim(field, " ")} }

// A scanner reads a field from its beginning. Its methods report whether there
// is what they read.
type scanner struct{ left string }

// comma reads what is between two members, or nothing at the end.
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

// take returns the first n bytes.
func (s *scanner) take(n int) string {
	taken := s.left[:n]
	s.left = s.left[n:]
	return taken
}

// run returns how many bytes at the beginning belong to the class.
func (s *scanner) run(class func(c byte) bool) int {
	n := 0
	for n < len(s.left) && class(s.left[n]) {
		n++
	}
	return n
}

func (s *scanner) member() (m member, ok bool) {
	if s.next("(") {
		ok = s.inner()
	} else {
		m.item, ok = s.item()
	}
	if ok {
		m.params, ok = s.params()
	}
	return m, ok
}

// inner reads an inner list after its parenthesis.
func (s *scanner) inner() bool {
	for {
		s.skip(" ")
		if s.next(")") {
			return true
		}
		if _, ok := s.item(); !ok {
			return false
		}
		if _, ok := s.params(); !ok {
			return false
		}
		if s.left == "" || s.left[0] != ' ' && s.left[0] != ')' {
			return false
		}
	}
}

func (s *scanner) params() (params string, ok bool) {
	before := s.left
	for strings.HasPrefix(s.left, ";") {
		if _, _, ok := s.param(); !ok {
			return "", false
		}
	}
	return before[:len(before)-len(s.left)], true
}

func (s *scanner) param() (key string, value item, ok bool) {
	if !s.next(";") {
		return "", item{}, false
	}
	s.skip(" ")
	if key, ok = s.key(); ok && s.next("=") {
		value, ok = s.item()
	}
	return key, value, ok
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
