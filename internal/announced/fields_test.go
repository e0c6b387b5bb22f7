package announced

import (
	"fmt"
	"strings"
	"testing"
)

// show writes what was parsed: kinds by their letter, parameters sorted as sent.
func show(parse func(string, func(member)) bool, field string) string {
	var all []string
	ok := parse(field, func(m member) {
		text := ""
		if m.key != "" {
			text = m.key + "="
		}
		switch m.item.kind {
		case numeric:
			text += fmt.Sprint("n:", m.item.text)
		case quoted:
			text += "s:" + m.name()
		case token:
			text += "t:" + m.name()
		}
		for s := (scanner{left: m.params}); s.left != ""; {
			key, v, _ := s.param()
			text += ";" + key
			if v.kind == numeric {
				text += "=" + v.text
			}
		}
		all = append(all, text)
	})
	if !ok {
		return "fails"
	}
	return strings.Join(all, "|")
}

// The rules of RFC 9651, section 4.2.
func TestParseList(t *testing.T) {
	for field, want := range map[string]string{
		`   `:                           ``,
		`"a","b"`:                       `s:a|s:b`,
		"\"a\" \t,\t \"b\"":             `s:a|s:b`,
		`"a, b;c=1"`:                    `s:a, b;c=1`,
		`"a\"b\\c"`:                     `s:a"b\c`,
		`abc_123;a=1;b=2; c_4, ghi;q=9`: `t:abc_123;a=1;b=2;c_4|t:ghi;q=9`,
		`*a:b/c`:                        `t:*a:b/c`,
		`"a";r=1;t=2.5;x;y=?0;z="1"`:    `s:a;r=1;t=2.5;x;y;z`,
		`"a";pk=:aGk=:;w=1`:             `s:a;pk;w=1`,
		`100;w=60, -5, 1.125`:           `n:100;w=60|n:-5|n:1.125`,
		`("a" b;c=1);d=2, ()`:           `;d=2|`,
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
		if got := show(parseList, field); got != want {
			t.Errorf("%q: %s, want %s", field, got, want)
		}
	}
}

func TestParseDictionary(t *testing.T) {
	for field, want := range map[string]string{
		`a, b;x=1, c=(1 2), *d-._1=2`:    `a=|b=;x=1|c=|*d-._1=n:2`,
		`a=1,`:                           `fails`,
		`a= 1`:                           `fails`,
		`a=`:                             `fails`,
		`A=1`:                            `fails`,
		`=1`:                             `fails`,
		`limit=100, remaining=50; reset`: `limit=n:100|remaining=n:50;reset`,
	} {
		if got := show(parseDictionary, field); got != want {
			t.Errorf("%q: %s, want %s", field, got, want)
		}
	}
}

// Of a parameter that is there twice the last counts.
func TestParameterTwice(t *testing.T) {
	parseList(`"a";r=1;r=2;t=5;t="x"`, func(m member) {
		if m.number("r") != 2 || m.number("t") >= 0 || m.number("q") >= 0 {
			t.Errorf("r=%v, t=%v, q=%v; want 2 and two negative ones", m.number("r"), m.number("t"), m.number("q"))
		}
	})
}
