package simulate

import (
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"example.com/awsretry/simulate/scenario"
)

// A rate is a number of calls a second. It is 0 if the flag is not given.
type rate struct{ value, most float64 }

func (r *rate) String() string {
	if r.value == 0 {
		return ""
	}
	return strconv.FormatFloat(r.value, 'g', -1, 64)
}

func (r *rate) Type() string { return "CALLS" }

func (r *rate) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0 && v <= r.most) { // NaN is not
		return fmt.Errorf("it must be a number above 0 and at most %.0f", r.most)
	}
	r.value = v
	return nil
}

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

// Complete implements cli.Completer: it completes the last setting, and after a
// plus sign its options.
func (l *list) Complete(typed string) []string {
	before, endings := typed[:strings.LastIndex(typed, ",")+1], scenario.SettingNames()
	if i := strings.LastIndex(typed, "+"); i >= len(before) {
		before, endings = typed[:i], scenario.SettingOptions()
	}
	for i, ending := range endings {
		endings[i] = before + ending
	}
	return endings
}

func (l *list) Set(s string) error {
	items, err := csv.NewReader(strings.NewReader(s)).Read() // a file's name in quotes may have a comma
	if err != nil || slices.Contains(items, "") {
		return errors.New("it must be a list such as none,standard,adaptive")
	}
	*l = append(*l, items...)
	return nil
}
