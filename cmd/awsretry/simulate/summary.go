package simulate

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"example.com/awsretry/cmd/awsretry/simulate/scenario"
)

// A summary says what is simulated in two lines. The title may be empty.
type summary struct{ title, size string }

// summarize also returns a line for each event.
func summarize(s scenario.Scenario) (what summary, events []string) {
	what.title = strings.Trim(s.Name+": "+s.About, ": ")
	c := s.Clients
	calling := fmt.Sprintf("%s calls/s in all", number(c.Rate))
	if c.Callers > 0 {
		calling = fmt.Sprintf("%d callers each, thinking %v", c.Callers, c.Think)
	}
	what.size = fmt.Sprintf("%v, seed %d; %s clients, %s; service of %s requests/s, queue of %s",
		s.Duration, s.Seed, count(int64(c.Count)), calling, number(s.Service.Capacity), count(int64(s.Service.Queue)))
	if t := s.Service.Throttle; t != nil {
		what.size += ", " + throttleEffect(t)
	}
	if o := s.OverTime; o != nil {
		what.size += fmt.Sprintf("; changing every %v", o.Every)
	}
	for _, e := range s.Events {
		to := fmt.Sprintf("to %v", e.To)
		if e.To == s.Duration {
			to = "on"
		}
		events = append(events, fmt.Sprintf("from %v %s: %s", e.From, to, effect(e)))
	}
	return what, events
}

// effect says what the event does.
func effect(e scenario.Event) string {
	switch e.Kind {
	case scenario.Outage:
		return "outage (" + e.How + ")"
	case scenario.CapacityStep:
		return fmt.Sprintf("capacity %s/s", number(e.Capacity))
	case scenario.Errors:
		return percent(e.Share) + " errors"
	case scenario.Throttling:
		return throttleEffect(e.Throttle)
	case scenario.SlowLatency:
		return fmt.Sprintf("latency x%s", number(e.Factor))
	case scenario.Join:
		return count(int64(e.Clients)) + " clients join"
	}
	return fmt.Sprintf("herd of %d calls each", e.Calls)
}

// throttleEffect says what the throttle does.
func throttleEffect(t *scenario.Throttle) string {
	var parts []string
	if t.Rate > 0 {
		parts = append(parts, fmt.Sprintf("throttled at %s/s", number(t.Rate)))
	}
	if t.PerClient {
		parts[0] += " each client"
	}
	if t.Share > 0 {
		parts = append(parts, percent(t.Share)+" throttled at random")
	}
	return strings.Join(parts, ", ")
}

func count(n int64) string { return humanize.Comma(n) }

func number(v float64) string {
	if v == float64(int64(v)) {
		return count(int64(v))
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

func percent(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

// latency has about three digits. Without a good call there is no latency.
func latency(d scenario.Duration, good int64) string {
	v := time.Duration(d)
	switch {
	case good == 0:
		return "-"
	case v >= 10*time.Second:
		return fmt.Sprintf("%.1fs", v.Seconds())
	case v >= time.Second:
		return fmt.Sprintf("%.2fs", v.Seconds())
	case v >= 10*time.Millisecond:
		return fmt.Sprintf("%.0fms", v.Seconds()*1e3)
	}
	return fmt.Sprintf("%.2fms", v.Seconds()*1e3)
}

func recoveryText(o Outcome) string {
	switch o.Recovered {
	case RecoveredInRun:
		return o.Recovery.String()
	case NotRecovered:
		return "over " + o.Recovery.String()
	}
	return "-"
}
