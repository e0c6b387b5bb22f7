package traffic

import (
	"fmt"
	"math"
	"strings"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// candidates are the settings that may be the present one, with their attempts
// and the mean delay before their first retry: after a failure, after
// throttling.
var candidates = []struct {
	use             string
	attempts        int
	delay, throttle time.Duration
	least           time.Duration // after throttling
}{
	{scenario.UseStandard, 3, 500 * time.Millisecond, 500 * time.Millisecond, 0},
	{scenario.UseLegacy, 4, 45 * time.Millisecond, 750 * time.Millisecond, 500 * time.Millisecond},
	{scenario.UseRevision2026, 3, 25 * time.Millisecond, 500 * time.Millisecond, 0},
}

// impossible is a distance that is longer than any that is measured.
const impossible = 100

// fewDelays are too few to tell settings apart.
const fewDelays = 10

// present returns the setting that wrote the log, and how that is known. If the
// log does not have it, it is a guess.
func (l *Log) present(retryAfter bool) (s scenario.Setting, why string, guess bool) {
	if l.known.Present != nil {
		s, why = *l.known.Present, "as given"
	} else if logged, own, ok := l.logged(); ok {
		s, why = logged, "the log says it"
		if own != "" {
			why += "; not simulated: its " + own
		}
	} else {
		s, why = l.guessed(retryAfter)
		return s, "a guess: " + why, true
	}
	attempts := 3
	if s.Use == scenario.UseLegacy {
		attempts = 4
	}
	s.Name = "present: " + s.Label()
	if s.MaxAttempts == 0 && l.most > 0 && l.most != attempts {
		s.MaxAttempts = l.most
		s.Name += fmt.Sprintf(", %d attempts", l.most)
	}
	return s, why, false
}

// logged returns the setting that the last line with one has, and the fields
// that the simulator has no name for.
func (l *Log) logged() (s scenario.Setting, own string, ok bool) {
	short, own, _ := strings.Cut(l.setting, " (")
	s, err := scenario.ParseSetting(short)
	return s, strings.TrimSuffix(own, ")"), short != "" && err == nil
}

// guessed guesses the setting that wrote the log, and says from what.
func (l *Log) guessed(retryAfter bool) (s scenario.Setting, why string) {
	s = scenario.Setting{Use: scenario.UseStandard}
	failed, throttled := l.delays[0], l.delays[1]
	attempts := 3
	switch {
	case count64(failed) < fewDelays && (retryAfter || count64(throttled) < fewDelays):
		why = "too few retries to see the delays; the default"
	case count64(failed) >= fewDelays && failed.StdDev() < 0.05*failed.Mean():
		s.Use, s.Pause = scenario.UseNaive, duration(time.Duration(failed.Mean())*time.Microsecond)
		why = "the delays are all alike"
	default:
		best := math.Inf(1)
		for _, c := range candidates {
			distance := 0.0
			if count64(failed) >= fewDelays {
				distance += ratio(failed.Mean(), c.delay)
			}
			if count64(throttled) >= fewDelays && !retryAfter {
				distance += ratio(throttled.Mean(), c.throttle)
				if throttled.Min() < c.least.Microseconds()*9/10 {
					distance += impossible
				}
			}
			if distance < best {
				best, attempts, s.Use = distance, c.attempts, c.use
			}
		}
		why = fmt.Sprintf("the first delays are %s on average", l.meanDelays())
		if best > math.Log(1.5) {
			why += ", which is none of the known settings': correct it"
		}
	}
	if l.waits > 0 && s.Use == scenario.UseStandard {
		s.Use = scenario.UseAdaptive
		why += "; attempts waited for their turn"
	}
	switch {
	case l.limit > 0 && l.limit != attempts:
		s.MaxAttempts = l.limit
	case l.limit == 0 && l.highest > attempts:
		s.MaxAttempts = l.highest
	}
	if s.MaxAttempts == 0 && s.Use == scenario.UseNaive {
		s.MaxAttempts = attempts
	}
	s.Name = "present: " + s.Label()
	if s.MaxAttempts > 0 {
		s.Name += fmt.Sprintf(", %d attempts", s.MaxAttempts)
	}
	return s, why
}

// meanDelays returns the means of the first delays.
func (l *Log) meanDelays() string {
	text := ""
	for i, after := range []string{"after failures", "after throttling"} {
		if count64(l.delays[i]) == 0 {
			continue
		}
		if text != "" {
			text += " and "
		}
		text += fmt.Sprintf("%v %s", rounded(time.Duration(l.delays[i].Mean())*time.Microsecond), after)
	}
	return text
}

// ratio returns how far a mean of microseconds is from a delay.
func ratio(mean float64, delay time.Duration) float64 {
	return math.Abs(math.Log(max(mean, 1) / float64(delay.Microseconds())))
}
