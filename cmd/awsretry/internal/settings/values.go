package settings

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/awsretry/cmd/internal/cli"
)

// A choice is one of several words. It is "" if the flag is not given.
type choice struct {
	value   string
	allowed []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.allowed, "|") }

func (c *choice) Complete(string) []string { return c.allowed }

func (c *choice) Set(s string) error {
	s = strings.ToLower(s)
	if !slices.Contains(c.allowed, s) {
		last := len(c.allowed) - 1
		return fmt.Errorf("it must be %s or %s", strings.Join(c.allowed[:last], ", "), c.allowed[last])
	}
	c.value = s
	return nil
}

// A retryAfter is a value of Transport.MaxRetryAfter.
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
	var p cli.Period
	if err := p.Set(s); err != nil {
		return fmt.Errorf("%w, or ignore", err)
	}
	*r = retryAfter(p)
	return nil
}
