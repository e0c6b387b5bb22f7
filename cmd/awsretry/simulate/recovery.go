package simulate

import "time"

// A Recovery says what an Outcome's Recovery is.
type Recovery string

// The values of a Recovery.
const (
	RecoveredInRun Recovery = "yes"
	NotRecovered   Recovery = "no"             // Recovery is the time that was left
	NoIncident     Recovery = "not applicable" // no event, or less than five seconds before it
)

// recovery returns [Outcome].Recovery for the successful calls of each slot.
func recovery(s Scenario, good []float64) (Duration, Recovery) {
	const (
		window = 5 // slots
		enough = 0.9
	)
	first, over := Duration(never), Duration(0)
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
			return Duration(time.Duration(i)*slot) - over, RecoveredInRun
		}
	}
	return s.Duration - over, NotRecovered
}
