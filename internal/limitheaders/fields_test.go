package limitheaders

import (
	"fmt"
	"strings"
	"testing"
)

// show formats a parsed item: its kind as a letter, and the known parameters.
func show(next func(*scanner, *member) bool, field string) string {
	var all []string
	s := begin(field)
	for m := (member{}); next(&s, &m); {
		text := ""
		if m.key != "" {
			text = m.key + "="
		}
		switch m.kind {
		case numeric:
			text += fmt.Sprint("n:", m.text)
		case quoted:
			text += "s:" + m.name()
		case token:
			text += "t:" + m.name()
		}
		for i, v := range []item{m.r, m.t, m.q, m.w, m.pk, m.qu} {
			if v.text != "" {
				text += fmt.Sprintf(";%s=%s", []string{"r", "t", "q", "w", "pk", "qu"}[i], v.text)
			}
		}
		all = append(all, text)
	}
	if s.failed {
		return "fails"
	}
	return strings.Join(all, "|")
}

// The rules of RFC 9651, section 4.2.
func TestReadList(t *testing.T) {
	for field, want := range map[string]string{
		`   `:                           ``,
		`"a","b"`:                       `s:a|s:b`,
		"\"a\" \t,\t \"b\"":             `s:a|s:b`,
		`"a, b;c=1"`:                    `s:a, b;c=1`,
		`"a\"b\\c"`:                     `s:a"b\c`,
		`abc_123;a=1;r=2; c_4, ghi;q=9`: `t:abc_123;r=2|t:ghi;q=9`,
		`*a:b/c`:                        `t:*a:b/c`,
		`"a";r=1;t=2.5;x;y=?0;z="1"`:    `s:a;r=1;t=2.5`,
		`"a";pk=:aGk=:;w=1;qu="b"`:      `s:a;w=1;pk=aGk=;qu=b`,
		`100;w=60, -5, 1.125`:           `n:100;w=60|n:-5|n:1.125`,
		`("a" b;q=1);t=2, ()`:           `;t=2|`,
		`@1659578233, ?1, %"f%c3%bc"`:   `||`,
		`999999999999999`:               `n:999999999999999`,
		`123456789012.125`:              `n:123456789012.125`,

		`"a",`:              `fails`,
		"\t\"a\"":           `fails`,
		`"a\`:               `fails`,
		`"a\b"`:             `fails`,
		"\"a\x00\"":         `fails`,
		"\"a\x7f\"":         `fails`,
		"\"\u00e9\"":        `fails`,
		`"a";r= 1`:          `fails`,
		`"a";r=`:            `fails`,
		`"a";`:              `fails`,
		`"a";R=1`:           `fails`,
		`1000000000000000`:  `fails`,
		`1234567890123.1`:   `fails`,
		`1.`:                `fails`,
		`1.1234`:            `fails`,
		`-`:                 `fails`,
		`1e3`:               `fails`,
		`("a"`:              `fails`,
		`("a""b")`:          `fails`,
		`("a",b)`:           `fails`,
		`:aGk=`:             `fails`,
		`?2`:                `fails`,
		`@1.5`:              `fails`,
		`@`:                 `fails`,
		`%"%C3"`:            `fails`,
		`%"%c`:              `fails`,
		`"a", "b";r=1, "c$`: `fails`,
	} {
		if got := show((*scanner).listed, field); got != want {
			t.Errorf("%q: %s, want %s", field, got, want)
		}
	}
}

func TestReadDictionary(t *testing.T) {
	for field, want := range map[string]string{
		`a, b;w=1, c=(1 2), *d-._1=2`:    `a=|b=;w=1|c=|*d-._1=n:2`,
		`a=1,`:                           `fails`,
		`a= 1`:                           `fails`,
		`a=`:                             `fails`,
		`A=1`:                            `fails`,
		`=1`:                             `fails`,
		`limit=100, remaining=50; reset`: `limit=n:100|remaining=n:50`,
	} {
		if got := show((*scanner).keyed, field); got != want {
			t.Errorf("%q: %s, want %s", field, got, want)
		}
	}
}

// If a parameter occurs twice, the last one counts.
func TestParameterTwice(t *testing.T) {
	s, m := begin(`"a";r=1;r=2;t=5;t="x"`), member{}
	if !s.listed(&m) || m.r.number() != 2 || m.t.number() >= 0 || m.q.number() >= 0 {
		t.Errorf("r=%v, t=%v, q=%v; want 2 and two negative ones", m.r.number(), m.t.number(), m.q.number())
	}
}
