package simulate

import (
	"time"

	"example.com/awsretry/cmd/awsretry/simulate/scenario"
)

// A Recovery says what an Outcome's Recovery is.
type Recovery string

// The values of a Recovery.
const (
	RecoveredInRun Recovery = "yes"
	NotRecovered   Recovery = "no"             // Recovery is the time that was left
	NoIncident     Recovery = "not applicable" // no event, or less than five seconds before it
)

// recovery returns [Outcome].Recovery for the successful calls of each slot.
func recovery(s scenario.Scenario, good []float64) (scenario.Duration, Recovery) {
	const (
		window = 5 // slots
		enough = 0.9
	)
	first, over := scenario.Duration(never), scenario.Duration(0)
	for _, e := range s.Events {
		first = min(first, e.From)
		if e.To < s.Duration {
			over = max(over, e.To)
		} else {
			over = max(over, e.From)
		}
	}
	before := int(min(time.Duration(first)/slot, time.Duration(len(good))))
	if len(s.Events) == 0 || before < window {
		return 0, NoIncident
	}
	reference := min(mean(good[:before]), newScript(s).segmentAt(time.Duration(over)).serves())
	from := int((time.Duration(over) + slot - 1) / slot)
	for i := from; i+window <= len(good); i++ {
		if mean(good[i:i+window]) >= enough*reference {
			return scenario.Duration(time.Duration(i)*slot) - over, RecoveredInRun
		}
	}
	return s.Duration - over, NotRecovered
}

// SecondsToTheRate returns how many seconds it takes, from a second of the run
// on, until the goodput is nine tenths of what the service serves, or -1 if it
// never is. The goodput is the mean of five seconds, or of the time in which
// the service serves twenty requests if that is longer. good is
// [Series].Good. The scenario must be valid.
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
