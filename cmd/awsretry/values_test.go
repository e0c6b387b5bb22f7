package main

import (
	"testing"
	"time"
)

func TestPeriods(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration // 0: not allowed
	}{
		{"500ms", 500 * time.Millisecond},
		{"1m30s", 90 * time.Second},
		{"5", 5 * time.Second},
		{"0.25", 250 * time.Millisecond},
		{"1e3", 1000 * time.Second},
		{"0", 0}, {"0s", 0}, {"-1", 0}, {"-1s", 0}, {"", 0}, {"x", 0}, {"NaN", 0}, {"inf", 0}, {"1e300", 0}, {"1e-12", 0},
		{"9223372037", 0}, {"99999999h", 0},
	} {
		got, err := parsePeriod(c.text)
		if got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%q is %v, %v; want %v", c.text, got, err, c.want)
		}
	}
}

func TestBrief(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0 s"},
		{time.Microsecond, "0.1 ms"},
		{1234 * time.Microsecond, "1.2 ms"},
		{12345 * time.Microsecond, "12 ms"},
		{999400 * time.Microsecond, "999 ms"},
		{999600 * time.Microsecond, "1.0 s"},
		{1500 * time.Millisecond, "1.5 s"},
		{59940 * time.Millisecond, "59.9 s"},
		{59960 * time.Millisecond, "1m0s"},
		{90 * time.Minute, "1h30m0s"},
	} {
		if got := brief(c.d); got != c.want {
			t.Errorf("%v is %q, want %q", c.d, got, c.want)
		}
	}
}

func TestCount(t *testing.T) {
	for _, c := range []struct {
		n           int
		thing, want string
	}{
		{0, "byte", "0 bytes"}, {1, "byte", "1 byte"}, {999, "byte", "999 bytes"}, {1000, "byte", "1,000 bytes"},
		{1234567, "token", "1,234,567 tokens"}, {-1000, "token", "-1,000 tokens"}, {2, "retry", "2 retries"}, {3, "success", "3 successes"},
	} {
		if got := count(c.n, c.thing); got != c.want {
			t.Errorf("%d is %q, want %q", c.n, got, c.want)
		}
	}
}
