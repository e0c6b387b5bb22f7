package cli

import (
	"cmp"
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

// flagError rewords an error of pflag: the flag, its value, and what is allowed.
func flagError(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	flag, allowed := invalid.GetFlag(), invalid.Unwrap()
	switch flag.Value.Type() {
	case "bool":
		allowed = errors.New("it must be true or false")
	case "uint64":
		allowed = fmt.Errorf("it must be a whole number, 0 to %d", uint64(math.MaxUint64))
	}
	return fmt.Errorf("--%s is %q; %w", flag.Name, invalid.GetValue(), allowed)
}

// A Number is a whole number from Least to Most. It is 0 if the flag is not
// given.
type Number struct {
	Value int
	Least int
	Most  int    // 0: the largest int
	Note  string // ends the error: what a value means
}

func (n *Number) String() string {
	if n.Value == 0 {
		return ""
	}
	return strconv.Itoa(n.Value)
}

// Type implements pflag.Value.
func (n *Number) Type() string { return "N" }

// Set implements pflag.Value.
func (n *Number) Set(s string) error {
	v, err := strconv.Atoi(s)
	switch {
	case n.Most > 0 || errors.Is(err, strconv.ErrRange):
		most := cmp.Or(n.Most, math.MaxInt)
		if err != nil || v < n.Least || v > most {
			return fmt.Errorf("it must be a whole number, %d to %d%s", n.Least, most, n.Note)
		}
	case err != nil || v < n.Least:
		return fmt.Errorf("it must be a whole number, %d or more%s", n.Least, n.Note)
	}
	n.Value = v
	return nil
}

// A Word is text that is not empty, because "" usually is an unset shell variable.
// Its Value is "" if the flag is not given.
type Word struct {
	Value    string
	Kind     string // for the help: FILE, NAME
	Required bool   // has no default
}

func (w *Word) String() string { return w.Value }

// Type implements pflag.Value.
func (w *Word) Type() string { return w.Kind }

// Set implements pflag.Value.
func (w *Word) Set(s string) error {
	switch empty := strings.TrimSpace(s) == ""; {
	case empty && w.Required:
		return errors.New("it must not be empty")
	case empty:
		return errors.New("it must not be empty; leave the flag out for its default")
	}
	w.Value = s
	return nil
}

// A Choice is one of several words. Its Value is "" if the flag is not given.
type Choice struct {
	Value   string
	Kind    string // for the help; "": the words
	Allowed []string
}

func (c *Choice) String() string { return c.Value }

// Type implements pflag.Value.
func (c *Choice) Type() string { return cmp.Or(c.Kind, strings.Join(c.Allowed, "|")) }

// Set implements pflag.Value.
func (c *Choice) Set(s string) error {
	s = strings.ToLower(s)
	if !slices.Contains(c.Allowed, s) {
		return errors.New("it must be " + c.Words())
	}
	c.Value = s
	return nil
}

// Words returns what is allowed as part of a sentence.
func (c *Choice) Words() string {
	last := len(c.Allowed) - 1
	return strings.Join(c.Allowed[:last], ", ") + " or " + c.Allowed[last]
}

// A Period is a duration above 0. It is 0 if the flag is not given.
type Period time.Duration

func (p *Period) String() string {
	if *p == 0 {
		return ""
	}
	return time.Duration(*p).String()
}

// Type implements pflag.Value.
func (p *Period) Type() string { return "TIME" }

// Set implements pflag.Value. It accepts 500ms, 1m30s, or a number of seconds.
func (p *Period) Set(s string) error {
	d, err := time.ParseDuration(s)
	if seconds, numErr := strconv.ParseFloat(s, 64); numErr == nil && seconds < math.MaxInt64/float64(time.Second) {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err != nil || d <= 0 {
		return errors.New("it must be a time above 0, such as 500ms, 2s, 1m30s, or a number of seconds")
	}
	*p = Period(d)
	return nil
}

// Exactly requires one argument for each name. Unlike cobra.ExactArgs, it names the
// argument that is missing. An empty argument is an error, too: it usually is an
// unset shell variable.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%s is missing", names[len(args)])
		}
		if len(args) > len(names) {
			return fmt.Errorf("argument %q is one too many", args[len(names)])
		}
		if i := slices.Index(args, ""); i >= 0 {
			return fmt.Errorf("%s is empty", names[i])
		}
		return nil
	}
}
