package cli

import (
	"testing"
	"time"
)

func TestPeriod(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1m30s": 90 * time.Second, "0.25": 250 * time.Millisecond, "1e3": 1000 * time.Second,
		"9223372036": 9223372036 * time.Second,
	} {
		var p Period
		if err := p.Set(text); err != nil || time.Duration(p) != want {
			t.Errorf("%q: got %v, %v; want %v", text, time.Duration(p), err, want)
		}
	}
	for _, text := range []string{"9223372037", "0", "-1", "-1s", "x", "NaN", "inf", "1e-12"} {
		var p Period
		if err := p.Set(text); err == nil || p != 0 {
			t.Errorf("%q: got %v, %v; want an error", text, time.Duration(p), err)
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
		err := c.number.Set(c.text)
		if c.err == "" {
			if err != nil || c.number.String() != c.text {
				t.Errorf("%+v with %q: got error %v", c.number, c.text, err)
			}
			continue
		}
		if err == nil || err.Error() != c.err {
			t.Errorf("%+v with %q: got error %v, want %q", c.number, c.text, err, c.err)
		}
	}
}
