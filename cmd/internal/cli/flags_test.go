package cli

import (
	"testing"
	"time"
)

func TestPeriod(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration // 0: not allowed
	}{
		{"500ms", 500 * time.Millisecond},
		{"1m30s", 90 * time.Second},
		{"5", 5 * time.Second},
		{"0.25", 250 * time.Millisecond},
		{"1e3", 1000 * time.Second},
		{"0", 0}, {"0s", 0}, {"-1", 0}, {"-1s", 0}, {"", 0}, {"x", 0}, {"NaN", 0}, {"inf", 0},
		{"1e300", 0}, {"1e-12", 0},
		{"9223372037", 0}, {"99999999h", 0},
	} {
		t.Run(c.text, func(t *testing.T) {
			var p Period
			if err := p.Set(c.text); time.Duration(p) != c.want || (err == nil) != (c.want > 0) {
				t.Errorf("got %v, %v; want %v", time.Duration(p), err, c.want)
			}
		})
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		name   string
		number Number
		text   string
		err    string // "": allowed
	}{
		{"least", Number{Least: 1}, "1", ""},
		{"below least", Number{Least: 1}, "0", "it must be a whole number, 1 or more"},
		{"off", Number{Least: 1, Off: -1}, "-1", ""},
		{"neither least nor off", Number{Least: 1, Off: -1, Note: ", or -1"}, "-2",
			"it must be a whole number, 1 or more, or -1"},
		{"no off", Number{Least: 1}, "-1", "it must be a whole number, 1 or more"},
		{"most", Number{Least: 1, Most: 9}, "9", ""},
		{"above most", Number{Least: 1, Most: 9}, "10", "it must be a whole number, 1 to 9"},
		{"text", Number{Least: 1}, "many", "it must be a whole number, 1 or more"},
		{"beyond an int", Number{Least: 1}, "99999999999999999999",
			"it must be a whole number, 1 to 9223372036854775807"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if err := c.number.Set(c.text); err != nil {
				got = err.Error()
			}
			if got != c.err {
				t.Errorf("got error %q, want %q", got, c.err)
			}
			if c.err == "" && c.number.String() != c.text {
				t.Errorf("the value is %s, want %s", c.number.String(), c.text)
			}
		})
	}
}
