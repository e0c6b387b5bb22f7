package simulate

import (
	"math"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// A Recovery tells whether goodput recovered.
type Recovery string

// The values of a Recovery.
const (
	RecoveredInRun Recovery = "yes"
	NotRecovered   Recovery = "no"             // Recovery is the time that was left
	NoIncident     Recovery = "not applicable" // no event, or less than five seconds before it
)

const (
	recoveryWindow = 5 // slots
	recoveredShare = 0.9
)

// recovery returns [Outcome].Recovery for the successful calls of each slot.
func recovery(s scenario.Scenario, good []float64) (Span, Recovery) {
	first, over := scenario.Duration(never), scenario.Duration(0)
	for _, e := range s.Events {
		first = min(first, e.From)
		if e.To < s.Duration {
			over = max(over, e.To)
		} else {
			over = max(over, e.From)
		}
	}
	before := mean(good[:min(time.Duration(first)/slot, time.Duration(len(good)))])
	if len(s.Events) == 0 || time.Duration(first) < recoveryWindow*slot || before == 0 {
		return 0, NoIncident
	}
	enough := recoveredShare * min(before, newScript(s).segmentAt(time.Duration(over)).serves())
	from := int((time.Duration(over) + slot - 1) / slot)
	lasting := lastingFrom(good, enough)
	for i := max(from, lasting); enough > 0 && i+recoveryWindow <= len(good); i++ {
		if mean(good[i:i+recoveryWindow]) >= enough {
			return Span(time.Duration(i)*slot - time.Duration(over)), RecoveredInRun
		}
	}
	return Span(s.Duration - over), NotRecovered
}

// lastingFrom returns the first slot from which goodput lasts to the end of the
// run: neither five slots in a row nor the rest of the run have fewer successes
// than chance allows at a rate of enough, within three standard deviations of a
// Poisson process.
func lastingFrom(good []float64, enough float64) int {
	stays := func(succeeded float64, slots int) bool {
		expected := enough * float64(slots)
		return succeeded >= expected-3*math.Sqrt(expected)
	}
	rest, window := 0.0, 0.0
	for i := len(good) - 1; i >= 0; i-- {
		rest += good[i]
		window += good[i]
		if i+recoveryWindow < len(good) {
			window -= good[i+recoveryWindow]
		}
		slots := len(good) - i
		if slots >= recoveryWindow && !(stays(rest, slots) && stays(window, recoveryWindow)) {
			return i + 1
		}
	}
	return 0
}

// SecondsToTheRate returns how many seconds after the second from of the run the
// goodput reaches nine tenths of what the service serves, or -1 if it never does.
// The goodput is the mean over five seconds, or over the time in which the service
// serves twenty requests if that is longer. good is [Series].Good. The scenario
// must be valid.
func SecondsToTheRate(s scenario.Scenario, good []float64, from int) int {
	at := func(second int) scenario.Duration { return scenario.Duration(second) * scenario.Duration(time.Second) }
	for begin, end := from, from; begin < len(good); begin++ {
		for end < begin+5 || Serves(s, at(begin), at(end)) < 20 {
			if end++; end > len(good) {
				return -1
			}
		}
		succeeded := 0.0
		for _, n := range good[begin:end] {
			succeeded += n
		}
		if succeeded >= 0.9*Serves(s, at(begin), at(end)) {
			return begin - from
		}
	}
	return -1
}
