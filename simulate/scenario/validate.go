package scenario

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// The largest values in [Clients].
const (
	MaxClients = maxOwners / 4 // each with one caller
	MaxRate    = 1e6
)

// The limits of a scenario. They keep a run within what a machine can store and
// finish.
const (
	maxCount     = 1_000_000
	maxCallers   = maxOwners/2 - 1 // of one client
	maxAttempts  = 1000
	maxOwners    = 500_000 // of instants and of deadlines, so that an owner's next instant is at most 1 ms away
	maxDuration  = 24 * time.Hour
	maxCalls     = 50_000_000 // of one setting
	maxEvents    = 100
	maxSettings  = 20
	maxRate      = MaxRate // of anything, per second
	maxTime      = time.Hour
	minNetwork   = 100 * time.Microsecond // a call takes at least as long, so that a failing loop ends
	maxHerdCalls = 1000
	maxTextBytes = 200
	maxNameBytes = 100
	maxQuantiles = 1000
	maxSteps     = 1000
)

// Validate returns nil, or an error that names each field that makes no sense,
// its value and what is allowed.
func (s Scenario) Validate() error {
	return joined(s.faults())
}

func joined(faults []fault) error {
	all := make([]error, len(faults))
	for i, f := range faults {
		all[i] = f
	}
	return errors.Join(all...)
}

// A fault is a field that makes no sense.
type fault struct {
	field    string // its path, as in events[0].from
	text     string // with the field, its value and what is allowed
	position string // in the file; "": unknown
}

func (f fault) Error() string { return "simulate: " + f.position + f.text }

// faults checks the scenario.
func (s Scenario) faults() []fault {
	var c checker
	c.seconds("duration", s.Duration, Duration(time.Second), Duration(maxDuration))
	c.seconds("drain", s.Drain, 0, Duration(maxTime))
	for _, text := range []struct{ field, value string }{{"name", s.Name}, {"about", s.About}} {
		c.check(len(text.value) <= maxTextBytes, text.field, clipped(text.value),
			"of at most %d bytes", maxTextBytes)
		c.check(printable(text.value), text.field, clipped(text.value), "printable, because terminals show it")
	}
	c.clients(s)
	c.service(s.Service)
	c.overTime(s)
	c.check(len(s.Events) <= maxEvents, "events", len(s.Events), "at most %d", maxEvents)
	for i, e := range s.Events[:min(len(s.Events), maxEvents)] {
		field := fmt.Sprintf("events[%d]", i)
		c.event(field, e, s)
		for j, other := range s.Events[:i] {
			c.check(e.Kind == Herd || e.Kind != other.Kind || e.until(s) <= other.From || other.until(s) <= e.From,
				field, e.Kind, "over before events[%d] of the same kind begins, or begin after it", j)
		}
	}
	c.check(len(s.Settings) <= maxSettings, "settings", len(s.Settings), "at most %d", maxSettings)
	labels := map[string]bool{}
	for i, setting := range s.Settings[:min(len(s.Settings), maxSettings)] {
		field := fmt.Sprintf("settings[%d]", i)
		if err := setting.validate(); err != nil {
			c.faults = append(c.faults, fault{field: field, text: field + ": " + err.Error()})
		}
		label := setting.Label()
		c.check(!labels[label], field, clipped(label), "named so that no other setting has the same name")
		labels[label] = true
	}
	if len(c.faults) == 0 {
		c.size(s)
	}
	return c.faults
}

// printable reports whether s has no control characters for a terminal.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// clipped returns s quoted and short enough for an error message.
func clipped(s string) string {
	const limit = 60
	if len(s) > limit {
		return strconv.Quote(strings.ToValidUTF8(s[:limit], "")) + "…"
	}
	return strconv.Quote(s)
}

// A checker collects faults.
type checker struct{ faults []fault }

// check adds a fault unless ok. mustBe and args are a format for what the value
// must be.
func (c *checker) check(ok bool, field string, value any, mustBe string, args ...any) {
	if !ok {
		text := fmt.Sprintf("%s is %v; it must be ", field, value) + fmt.Sprintf(mustBe, args...)
		c.faults = append(c.faults, fault{field: field, text: text})
	}
}

func (c *checker) whole(field string, n, low, high int) {
	c.check(n >= low && n <= high, field, n, "%d to %d", low, high)
}

func (c *checker) within(field string, d, low, high Duration) {
	c.check(d >= low && d <= high, field, d, "%v to %v", low, high)
}

// seconds checks a time that has no fraction of a second.
func (c *checker) seconds(field string, d, low, high Duration) {
	c.within(field, d, low, high)
	c.check(time.Duration(d)%time.Second == 0, field, d, "in whole seconds")
}

// positive checks that a number is above 0 and at most high. NaN is not.
func (c *checker) positive(field string, v, high float64) {
	c.check(v > 0 && v <= high, field, v, "above 0 and at most %v", high)
}

// number checks that a number is at least 0 and at most high. NaN is not.
func (c *checker) number(field string, v, high float64) {
	c.check(v >= 0 && v <= high, field, v, "at least 0 and at most %v", high)
}
