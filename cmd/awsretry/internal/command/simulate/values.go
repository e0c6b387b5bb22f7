package simulate

import (
	"encoding/csv"
	"errors"
	"slices"
	"strings"
)

// assignments have values for paths in a scenario's file.
type assignments []string

func (a *assignments) String() string { return strings.Join(*a, " ") }
func (a *assignments) Type() string   { return "PATH=VALUE" }

func (a *assignments) Set(s string) error {
	if path, _, ok := strings.Cut(s, "="); !ok || path == "" {
		return errors.New("it must be PATH=VALUE, as in service.capacity=200; an empty VALUE omits the line")
	}
	*a = append(*a, s)
	return nil
}

// A list is separated by commas. A flag that is given again adds to it.
type list []string

func (l *list) String() string {
	if len(*l) == 0 {
		return ""
	}
	var text strings.Builder
	w := csv.NewWriter(&text)
	_ = w.Write(*l) // to a Builder
	w.Flush()
	return strings.TrimSpace(text.String())
}

func (l *list) Type() string { return "LIST" }

func (l *list) Set(s string) error {
	items, err := csv.NewReader(strings.NewReader(s)).Read() // a file's name in quotes may have a comma
	if err != nil || slices.Contains(items, "") {
		return errors.New("it must be a list such as none,standard,adaptive")
	}
	*l = append(*l, items...)
	return nil
}
