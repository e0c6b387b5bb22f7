package main

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The types of flags, whose errors say what is allowed.

type choice struct {
	value   string
	allowed []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.allowed, "|") }

func (c *choice) Set(s string) error {
	s = strings.ToLower(s)
	if !slices.Contains(c.allowed, s) {
		last := len(c.allowed) - 1
		return fmt.Errorf("it must be %s or %s", strings.Join(c.allowed[:last], ", "), c.allowed[last])
	}
	c.value = s
	return nil
}

type number struct {
	value int
	least int
	most  int    // 0: what an int holds
	off   int    // a value below least that is allowed all the same; 0: none
	note  string // on what a value means
}

func (n *number) String() string {
	if n.value == 0 {
		return ""
	}
	return strconv.Itoa(n.value)
}
func (n *number) Type() string { return "N" }

func (n *number) Set(s string) error {
	v, err := strconv.Atoi(s)
	switch {
	case n.most > 0 || errors.Is(err, strconv.ErrRange):
		most := cmp.Or(n.most, math.MaxInt)
		if err != nil || v < n.least || v > most {
			return fmt.Errorf("it must be a whole number, %d to %d%s", n.least, most, n.note)
		}
	case err != nil || v < n.least && (v == 0 || v != n.off):
		return fmt.Errorf("it must be a whole number, %d or more%s", n.least, n.note)
	}
	n.value = v
	return nil
}

// A seed is any number that a random source can start from.
type seed uint64

func (s *seed) String() string { return "" }
func (s *seed) Type() string   { return "NUMBER" }

func (s *seed) Set(text string) error {
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return fmt.Errorf("it must be a whole number, 0 to %d", uint64(math.MaxUint64))
	}
	*s = seed(v)
	return nil
}

// A rate is a number of calls a second; the zero value is none.
type rate struct{ value, most float64 }

func (r *rate) String() string { return "" }
func (r *rate) Type() string   { return "CALLS" }

func (r *rate) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0 && v <= r.most) { // NaN is not
		return fmt.Errorf("it must be a number above 0 and at most %.0f", r.most)
	}
	r.value = v
	return nil
}

// A word is text that is not empty, since "" is often an unset variable of a
// shell. The zero value means that the flag was not given.
type word struct {
	value string
	kind  string // in the help: FILE, NAME
}

func (w *word) String() string { return w.value }
func (w *word) Type() string   { return w.kind }

func (w *word) Set(s string) error {
	if strings.TrimSpace(s) == "" {
		return errors.New("it must not be empty; leave the flag out for its default")
	}
	w.value = s
	return nil
}

// A list is separated by commas. A flag that is given several times adds to it.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }
func (l *list) Type() string   { return "LIST" }

func (l *list) Set(s string) error {
	items, err := csv.NewReader(strings.NewReader(s)).Read() // quotes allow for a comma in a file's name
	if err != nil || slices.Contains(items, "") {
		return errors.New("it must be a list such as none,standard,adaptive")
	}
	*l = append(*l, items...)
	return nil
}

// flagError rewords an error of pflag: the flag, its value, and what is allowed.
func flagError(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	allowed := invalid.Unwrap()
	if errors.Is(allowed, strconv.ErrSyntax) && invalid.GetFlag().Value.Type() == "bool" {
		allowed = errors.New("it must be true or false")
	}
	return fmt.Errorf("--%s is %q; %w", invalid.GetFlag().Name, invalid.GetValue(), allowed)
}

// A period is a duration above 0; the zero value is none.
type period time.Duration

func (p *period) String() string {
	if *p == 0 {
		return ""
	}
	return time.Duration(*p).String()
}
func (p *period) Type() string { return "TIME" }

func (p *period) Set(s string) error {
	d, err := parsePeriod(s)
	*p = period(d)
	return err
}

// parsePeriod reads 500ms, 1m30s, or a number of seconds.
func parsePeriod(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if seconds, numErr := strconv.ParseFloat(s, 64); numErr == nil && seconds < math.MaxInt64/float64(time.Second) {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err != nil || d <= 0 {
		return 0, errors.New("it must be a time above 0, such as 500ms, 2s, 1m30s, or a number of seconds")
	}
	return d, nil
}

// A retryAfter is what Transport.MaxRetryAfter means by its values.
type retryAfter time.Duration

func (r *retryAfter) String() string {
	switch {
	case *r == 0:
		return ""
	case *r < 0:
		return "ignore"
	}
	return time.Duration(*r).String()
}
func (r *retryAfter) Type() string { return "TIME|ignore" }

func (r *retryAfter) Set(s string) error {
	if strings.EqualFold(s, "ignore") {
		*r = -1
		return nil
	}
	d, err := parsePeriod(s)
	if err != nil {
		return fmt.Errorf("%w, or ignore", err)
	}
	*r = retryAfter(d)
	return nil
}
