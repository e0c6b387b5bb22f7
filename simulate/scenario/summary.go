package scenario

import (
	"fmt"
	"strings"

	"example.com/awsretry/simulate/internal/format"
)

// A Summary describes in words what is simulated. The title may be empty. Each
// event has a line.
type Summary struct {
	Title, Size string
	Events      []string
}

// Summary returns the summary of a scenario that has its defaults.
func (s Scenario) Summary() Summary {
	var what Summary
	what.Title = strings.Trim(s.Name+": "+s.About, ": ")
	c := s.Clients
	calling := fmt.Sprintf("%s calls/s in all", format.Number(c.Rate))
	if c.Callers > 0 {
		calling = fmt.Sprintf("%s each, thinking %v", format.Plural(int64(c.Callers), "caller"), c.Think)
	}
	length := s.Duration.String()
	if s.Drain > 0 {
		length += fmt.Sprintf(" and %v to drain", s.Drain)
	}
	what.Size = fmt.Sprintf("%s, seed %d; %s, %s; service of %s requests/s, queue of %s",
		length, s.Seed, format.Plural(int64(c.Count), "client"), calling,
		format.Number(s.Service.Capacity), format.Count(int64(s.Service.Queue)))
	if t := s.Service.Throttle; t != nil {
		what.Size += ", " + t.effect()
	}
	if b := s.Service.Body; b != nil {
		what.Size += fmt.Sprintf(", bodies of %v", b.Time)
		if b.Broken > 0 {
			what.Size += ", of which " + format.Percent(b.Broken) + " break off"
		}
	}
	if o := s.OverTime; o != nil {
		what.Size += fmt.Sprintf("; changing every %v", o.Every)
	}
	for _, e := range s.Events {
		to := fmt.Sprintf("to %v", e.To)
		if e.To == s.Duration {
			to = "on"
		}
		what.Events = append(what.Events, fmt.Sprintf("from %v %s: %s", e.From, to, e.effect()))
	}
	return what
}

// effect describes what the event does.
func (e Event) effect() string {
	switch e.Kind {
	case Outage:
		return "outage (" + e.How + ")"
	case CapacityStep:
		return fmt.Sprintf("capacity %s/s", format.Number(e.Capacity))
	case Errors:
		return format.Percent(e.Share) + " errors"
	case Throttling:
		return e.Throttle.effect()
	case SlowLatency:
		return fmt.Sprintf("latency x%s", format.Number(e.Factor))
	case Join:
		if e.Clients == 1 {
			return "1 client joins"
		}
		return format.Plural(int64(e.Clients), "client") + " join"
	}
	if e.Calls == 1 {
		return "herd of 1 call each"
	}
	return fmt.Sprintf("herd of %s calls each", format.Number(e.Calls))
}

// effect describes what the throttle does.
func (t *Throttle) effect() string {
	var parts []string
	each := ""
	if t.PerClient {
		each = " each client"
	}
	if t.Rate > 0 {
		parts = append(parts, fmt.Sprintf("throttled at %s/s", format.Number(t.Rate))+each)
	}
	if t.Window > 0 {
		parts[0] += fmt.Sprintf(" in windows of %v", t.Window)
	}
	if t.Announces != "" {
		parts[0] += ", announced as " + t.Announces + " does"
	}
	if t.InFlight > 0 {
		parts = append(parts, fmt.Sprintf("throttled above %s in flight", format.Count(int64(t.InFlight)))+each)
	}
	if t.Share > 0 {
		parts = append(parts, format.Percent(t.Share)+" throttled at random")
	}
	if t.Ban > 0 {
		parts = append(parts, fmt.Sprintf("then banned for %v", t.Ban)+each)
	}
	return strings.Join(parts, ", ")
}
