package settings

import (
	"fmt"
	"strings"
	"time"

	"example.com/awsretry/cmd/internal/cli"
)

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
