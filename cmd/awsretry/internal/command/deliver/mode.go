package deliver

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// A mode is what the command does: the flag that chooses it, and the flags that
// it has besides --db.
type mode struct {
	name  string // of the flag; "": the first mode has none
	help  string
	flags []string
	run   runFunc
}

var modes = []mode{
	{"", "", []string{"policy", "key", "method", "header", "data"}, (*command).enqueue},
	{"work", "make the attempts of the deliveries, until Ctrl-C",
		[]string{"workers", "attempt-timeout", "stop-timeout", "until-empty", "json"}, (*command).runWork},
	{"list", "list deliveries, the oldest first",
		[]string{"state", "endpoint", "older-than", "limit", "json"}, (*command).list},
	{"stats", "count the deliveries in each state", []string{"json"}, (*command).stats},
	{"redrive", "have dead letters delivered again",
		[]string{"endpoint", "older-than", "limit", "dry-run", "json"}, (*command).redrive},
	{"cancel", "cancel the deliveries with these numbers", nil, (*command).cancel},
}

// modeOf returns the mode that the flags choose. Its errors name flags without
// their values, which may be secret.
func modeOf(set *pflag.FlagSet) (mode, error) {
	chosen, usual := modes[0], "to store a request"
	for _, m := range modes[1:] {
		given, _ := set.GetBool(m.name)
		switch {
		case !given:
		case chosen.name != "":
			return mode{}, fmt.Errorf("--%s and --%s exclude each other; give one of %s, or none to store a request",
				chosen.name, m.name, choices(func(mode) bool { return true }))
		default:
			chosen, usual = m, "with --"+m.name
		}
	}
	var faults []error
	set.Visit(func(f *pflag.Flag) {
		isMode := slices.ContainsFunc(modes, func(m mode) bool { return m.name == f.Name })
		if f.Name == "db" || f.Name == "help" || isMode || slices.Contains(chosen.flags, f.Name) {
			return
		}
		allowed := choices(func(m mode) bool { return slices.Contains(m.flags, f.Name) })
		if allowed == "" {
			allowed = "storing a request"
		}
		faults = append(faults, fmt.Errorf("--%s cannot be given %s; it is for %s", f.Name, usual, allowed))
	})
	if !set.Changed("db") {
		faults = append(
			faults,
			errors.New("--db is missing; it must be an SQLite file, or the URL of a PostgreSQL database"),
		)
	}
	return chosen, errors.Join(faults...)
}

// choices returns the flags of the modes that f selects.
func choices(f func(mode) bool) string {
	var names []string
	for _, m := range modes {
		if m.name != "" && f(m) {
			names = append(names, "--"+m.name)
		}
	}
	if n := len(names); n > 1 {
		names = append(names[:n-2], names[n-2]+" and "+names[n-1])
	}
	return strings.Join(names, ", ")
}
