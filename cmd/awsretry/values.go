package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
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
	if err != nil || v < n.least && (v == 0 || v != n.off) {
		return fmt.Errorf("it must be a whole number, %d or more%s", n.least, n.note)
	}
	n.value = v
	return nil
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
