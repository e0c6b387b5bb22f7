package awsconfig

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// A Value is the value of a setting. It is zero if nothing sets it.
type Value struct {
	Text        string // without white space at its ends; "" means not set, unless a line continues it
	From        string // such as "/home/me/.aws/config [profile p] retry_mode"
	Line        int    // the number of its line in a file
	ContinuedAt int    // the number of the line that continues Text, which no setting allows; 0 means none
}

// FirstSet returns the first of the values that is set, or the zero Value.
func FirstSet(values ...Value) Value {
	for _, v := range values {
		if v.IsSet() {
			return v
		}
	}
	return Value{}
}

// IsSet reports whether the setting has a value.
func (v Value) IsSet() bool { return v.Text != "" || v.ContinuedAt != 0 }

// Is reports whether the value is the word, in any case of its ASCII letters.
// strings.EqualFold would also match the long s of "ſtandard" with an s.
func (v Value) Is(word string) bool {
	if v.ContinuedAt != 0 || len(v.Text) != len(word) {
		return false
	}
	for i := range len(word) {
		if lowerASCII(v.Text[i]) != lowerASCII(word[i]) {
			return false
		}
	}
	return true
}

// Bool returns the value of a switch.
func (v Value) Bool() (bool, error) {
	switch {
	case v.Is("true"):
		return true, nil
	case v.Is("false"):
		return false, nil
	}
	return false, v.MustBe("true or false")
}

// MustBe returns the error of a value that is not allowed.
func (v Value) MustBe(allowed string) error {
	line, continued := "", ""
	if v.Line != 0 {
		line = fmt.Sprintf(", line %d,", v.Line)
	}
	if v.ContinuedAt != 0 {
		continued = fmt.Sprintf(" and goes on in line %d, which is indented", v.ContinuedAt)
	}
	return fmt.Errorf("%s%s is %s%s; it must be %s", v.From, line, quoted(v.Text), continued, allowed)
}

func lowerASCII(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}

// quoted returns s in quotes for an error message, cut to a readable length.
func quoted(s string) string {
	const limit = 80
	if len(s) <= limit {
		return strconv.Quote(s)
	}
	end := limit
	for end > limit-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%q… (%d bytes)", s[:end], len(s))
}
