package traffic

import (
	"cmp"
	"fmt"
	"strings"

	"example.com/awsretry/simulate/scenario"
)

// present returns the setting that wrote the log, and how it is known. A part of a
// log may not have the setting: then it is a guess.
func (l *Log) present() (s scenario.Setting, why string) {
	logged, own, _ := strings.Cut(l.setting, " (")
	s, err := scenario.ParseSetting(logged)
	switch {
	case l.known.Present != nil:
		s, why = *l.known.Present, "as given"
	case err != nil && l.waits > 0:
		s, why = scenario.Setting{Use: scenario.UseAdaptive}, "a guess, because attempts waited for their turn"
	case err != nil:
		s, why = scenario.Setting{Use: scenario.UseStandard}, "a guess: the default, because the log does not say it"
	case own != "":
		why = "the log says it; not simulated: its " + strings.TrimSuffix(own, ")")
	default:
		why = "the log says it"
	}
	usual := 3
	if s.Use == scenario.UseLegacy {
		usual = 4
	}
	s.Name = "present: " + s.Label()
	made := cmp.Or(l.most, l.limit, max(l.highest, usual))
	if made != usual && s.MaxAttempts == 0 && s.Use != scenario.UseNone && s.Use != scenario.UseDelivery {
		s.MaxAttempts = made
		s.Name += fmt.Sprintf(", %d attempts", made)
	}
	return s, why
}
