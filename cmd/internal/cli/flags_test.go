package cli

import (
	"testing"
	"time"
)

func TestPeriod(t *testing.T) {
	for text, want := range map[string]time.Duration{ // 0: not allowed
		"1m30s": 90 * time.Second, "0.25": 250 * time.Millisecond, "1e3": 1000 * time.Second,
		"9223372036": 9223372036 * time.Second, "9223372037": 0,
		"0": 0, "-1": 0, "-1s": 0, "x": 0, "NaN": 0, "inf": 0, "1e-12": 0,
	} {
		var p Period
		if err := p.Set(text); time.Duration(p) != want || (err == nil) != (want > 0) {
			t.Errorf("%q: got %v, %v; want %v", text, time.Duration(p), err, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		number Number
		text   string
		err    string // "": allowed
	}{
		{Number{Least: 1}, "1", ""},
		{Number{Least: 1}, "0", "it must be a whole number, 1 or more"},
		{Number{Least: 1}, "many", "it must be a whole number, 1 or more"},
		{Number{Least: 1}, "99999999999999999999", "it must be a whole number, 1 to 9223372036854775807"},
		{Number{Least: 1, Most: 9}, "9", ""},
		{Number{Least: 1, Most: 9}, "10", "it must be a whole number, 1 to 9"},
		{Number{Least: 1, Most: 9}, "0", "it must be a whole number, 1 to 9"},
		{Number{Most: 9, Note: ", or so"}, "many", "it must be a whole number, 0 to 9, or so"},
	} {
		got := ""
		if err := c.number.Set(c.text); err != nil {
			got = err.Error()
		}
		if got != c.err || c.err == "" && c.number.String() != c.text {
			t.Errorf("%+v with %q: got error %q, want %q", c.number, c.text, got, c.err)
		}
	}
}
