package simulate

import (
	"time"

	"example.com/awsretry/simulate/scenario"
)

// ServesOverTime returns how many requests per second the service can serve
// successfully. The first level is from the start of the run, the last one lasts
// to its end. The scenario must be that of a [Result].
func ServesOverTime(s scenario.Scenario) []scenario.Level {
	var levels []scenario.Level
	for _, g := range newScript(s) {
		if g.from < time.Duration(s.Duration) {
			levels = append(levels, scenario.Level{From: g.from, Value: g.serves()})
		}
	}
	return levels
}
