package pacing

import "time"

// Tuning are the constants of [Scaled]. docs/ALGORITHM.md says what they are
// good for, and docs/decisions/scaled-pacing.md why they have these values.
// The program bench/pacing measures other values.
type Tuning struct {
	// Recovery after a cut.
	RiseTime      float64 // seconds until the rate is back at the limit, at least
	RiseTrips     float64 // round trips that are added to it
	LongestRise   float64 // seconds, without the round trips
	LongestSparse float64 // seconds: the longest recovery that a high share of throttling causes
	Sparse        float64 // seconds at 1/s, by the square of the rate: the same by the rate
	Predictable   float64 // seconds at 1/s, by the square of the rate: the recovery where the limit is predictable
	UsualShare    float64 // of responses throttled, in a fleet of clients
	ShareMemory   float64 // responses over which the share is smoothed

	// Search for a higher limit.
	Step          float64       // of the limit, after the first SearchTime, and 8 and 27 times that after two and three
	SearchTime    float64       // seconds
	SearchAlone   float64       // the same where the limit is predictable
	Agreement     float64       // two limits are the same within this part
	Agreements    int           // so many of them make the limit predictable
	MostUnused    float64       // times the measured rate
	ManyOutcomes  int           // make a measurement that a cut can rely on
	Steady        float64       // the last measurement is within this part of those before it
	Denials       int           // cuts in a row between which nothing is accepted, until the cuts are deeper
	DeniedBeta    float64       // fraction of the limit that such a cut leaves, apart from the usual one
	BurstSeconds  float64       // tokens saved up, in seconds at the present rate
	LongestTrip   time.Duration // a longer one counts as this
	TripSmoothing float64       // round trips over which their mean is smoothed

	// Start.
	Doubling       time.Duration // time in which the rate doubles, at least
	PerDoubling    float64       // requests in that time, at least
	SlowStart      float64       // requests per second that are tried whatever is measured
	FastestGrowth  float64       // times the measured rate
	Overload       float64       // throttled responses that end the start
	OverloadRelief float64       // of them that each other response offsets

	// Throttling that does not depend on the rate.
	Collapse       float64       // the rate fell by this factor
	CollapseTime   time.Duration // in which it fell so far
	LeastTested    float64       // requests per second
	ForBackground  float64       // score that accepts a background
	AgainstIt      float64       // score, below 0, that rejects it
	ProbeRelief    float64       // what a response that is not throttled takes from the score
	ProbeResponses int           // before a background is accepted, at least
	MostBackground float64       // share; a higher one is a limit below the rate
	HeavyResponses int           // throttled ones before the share is taken for higher
	RetestAfter    time.Duration // until a background is tested again
	Excess         float64       // times the background: so much throttling is tested at once
	ExcessSlack    float64       // throttled responses more than that
	ExcessWindow   int           // responses that are counted for it
}

// DefaultTuning returns the constants that [NewScaled] sets.
func DefaultTuning() Tuning {
	return Tuning{
		RiseTime:      6,
		RiseTrips:     12,
		LongestRise:   60,
		LongestSparse: 20,
		Sparse:        200,
		Predictable:   600,
		UsualShare:    0.025,
		ShareMemory:   200,

		Step:          0.08,
		SearchTime:    3,
		SearchAlone:   1,
		Agreement:     0.03,
		Agreements:    2,
		MostUnused:    2,
		ManyOutcomes:  10,
		Steady:        0.15,
		Denials:       5,
		DeniedBeta:    0.55,
		BurstSeconds:  0.1,
		LongestTrip:   10 * time.Second,
		TripSmoothing: 8,

		Doubling:       500 * time.Millisecond,
		PerDoubling:    1.5,
		SlowStart:      20,
		FastestGrowth:  4,
		Overload:       3.5,
		OverloadRelief: 0.15,

		Collapse:       4,
		CollapseTime:   30 * time.Second,
		LeastTested:    25,
		ForBackground:  5,
		AgainstIt:      3,
		ProbeRelief:    0.045,
		ProbeResponses: 150,
		MostBackground: 0.17,
		HeavyResponses: 8,
		RetestAfter:    20 * time.Second,
		Excess:         1.5,
		ExcessSlack:    5,
		ExcessWindow:   200,
	}
}
